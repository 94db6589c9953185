// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
public import RelayProtocol

/// Something to send to another device: the original's `NearShareFileProvider`, and its URIs.
public struct NearShareItem: Hashable, Sendable {
    enum Content: Hashable, Sendable {
        case file(path: String)
        case stream(ShareStream, name: EntryName, size: Int64, modified: Int64)
        case note(ShareOffer.Note)
    }

    let content: Content

    /// A file, or a folder with all its content. Links inside a folder are left out.
    public static func file(_ url: URL) -> NearShareItem { file(atPath: url.path) }

    /// A file or folder by its path, as the system writes it.
    public static func file(atPath path: String) -> NearShareItem { NearShareItem(content: .file(path: path)) }

    /// A file whose content comes while it is sent.
    /// - Parameters:
    ///   - size: In bytes, not negative.
    ///   - modified: In milliseconds since 1970.
    package static func stream(_ stream: ShareStream, name: EntryName, size: Int64, modified: Int64) -> NearShareItem {
        NearShareItem(content: .stream(stream, name: name, size: size, modified: modified))
    }

    /// A link.
    public static func uri(_ uri: LaunchURI) -> NearShareItem { NearShareItem(content: .note(.init(.uri, uri.text))) }

    /// A text; all texts and links of one transfer have at most 64 KiB.
    public static func text(_ text: String) -> NearShareItem { NearShareItem(content: .note(.init(.text, text))) }
}

/// How far a transfer is: the original's `NearShareProgress`.
public struct NearShareProgress: Hashable, Sendable {
    /// The bytes of files that the other device has confirmed, with those that it had before.
    public internal(set) var bytesSent: Int64
    /// The bytes of all files.
    public internal(set) var totalBytesToSend: Int64
    /// The files that the other device has completely.
    public internal(set) var filesSent: Int
    /// The number of files.
    public internal(set) var totalFilesToSend: Int
    /// What the transfer does now.
    public internal(set) var phase = Phase.waiting

    /// What a transfer does.
    public enum Phase: String, Hashable, Sendable {
        /// It waits for the other device, and for its person's decision.
        case waiting
        /// Content is on its way.
        case sending
        /// The connection was lost. It continues as soon as the other device can be reached again.
        case interrupted
    }

    init(bytesSent: Int64, totalBytesToSend: Int64, filesSent: Int, totalFilesToSend: Int) {
        self.bytesSent = bytesSent
        self.totalBytesToSend = totalBytesToSend
        self.filesSent = filesSent
        self.totalFilesToSend = totalFilesToSend
    }

    mutating func add(_ bytes: Int64, files: Int) {
        bytesSent += bytes
        filesSent += files
    }
}

/// The result of a transfer.
public struct NearShareReport: Hashable, Sendable {
    /// What the other device does not have.
    public struct LeftOut: Hashable, Sendable {
        /// Why it is left out.
        public enum Reason: String, Hashable, Sendable {
            /// It is a link.
            case link
            /// It is neither a file nor a folder.
            case special
            /// It could not be read, or changed during the transfer.
            case notReadable
            /// One of the devices does not take its name, or it is nested too deep.
            case nameNotPossible
            /// The other device could not write it.
            case notWritable
            /// It arrived damaged; send it again.
            case damaged
        }

        /// The path within what was sent, for people.
        public let path: String
        /// Why it is left out.
        public let reason: Reason
    }

    /// The names of the files and folders on the other device, in the order of the items. They differ from those here if it had others of the
    /// same name.
    public let names: [String]
    /// The number of files that it has now.
    public let files: Int
    /// The bytes of files that were sent now; fewer than their size if some were there.
    public let bytesSent: Int64
    /// What was left out.
    public let leftOut: [LeftOut]
}
