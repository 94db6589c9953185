// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a transfer of a folder left out, and why: one entry, or several whose names are not known.
struct LeftOut: Sendable {
    /// Where it is in the shared folder.
    let path: String
    let why: AgentError
    /// The number of entries.
    let count: Int

    init(_ path: String, _ why: AgentError, count: Int = 1) {
        self.path = DisplayText.sanitized(path)
        self.why = why
        self.count = count
    }

    /// What the other device left out of a listing.
    init(_ omission: FileServiceMessages.Omission, in folder: String) {
        let name = DisplayText.sanitized(omission.name)
        let path = folder.isEmpty ? name : "\(folder)/\(name)"
        let why =
            switch FileServiceMessages.Omission.Reason(rawValue: omission.reason) {
            case .notUTF8: "its name is not UTF-8; rename it there"
            case .backslash: "its name has a backslash; rename it there"
            case .controlCharacter: "its name has a character that controls a line, a terminal or the writing direction; rename it there"
            case .unfinished: "it is an unfinished transfer"
            case .link: "it is a link; put the file itself there"
            case .special: "it is neither a file nor a folder"
            case .unreadable: "the other device cannot read it"
            case nil: "the other device does not share it"
            }
        self.init(path, AgentError("notShared", "'\(path)' was left out: \(why)", .incomplete))
    }

    /// Further ones of a folder whose names the other device does not give.
    init(_ count: Int, in folder: String) {
        let place = folder.isEmpty ? "the folder" : "'\(folder)'"
        let what = count == 1 ? "1 more entry in \(place) was" : "\(count) more entries in \(place) were"
        self.init(folder, AgentError("notShared", "\(what) left out", .incomplete), count: count)
    }

    /// Whether the transfer of a folder goes on after an error: it concerns one file or folder only.
    static func isPossible(_ error: AgentError) -> Bool {
        switch error.code {
        case "fileNotFound", "fileNotAllowed", "fileNotReadable", "fileChanged", "fileDamaged", "fileExists", "fileBusy", "fileNotWritable",
            "notAFile", "notAFolder", "tooDeep":
            true
        default: false
        }
    }
}
