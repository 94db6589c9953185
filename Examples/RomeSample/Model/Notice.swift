// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One result for the person: what happened, why, and what to do next.
struct Notice: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case success, progress, problem
        /// It may have happened: nobody knows.
        case unknown
    }

    var kind: Kind
    /// Such as `Accepted, waiting`.
    var title: String
    /// The reason; may be empty.
    var reason = ""
    /// What the person can do; empty if nothing is to be done.
    var nextStep = ""
    /// The code of the error, for a report; empty without one.
    var code = ""

    static func progress(_ title: String, _ reason: String = "") -> Notice { Notice(kind: .progress, title: title, reason: reason) }
    static func success(_ title: String, _ reason: String = "") -> Notice { Notice(kind: .success, title: title, reason: reason) }
    static func problem(_ title: String, _ reason: String, nextStep: String = "", code: String = "") -> Notice {
        Notice(kind: .problem, title: title, reason: reason, nextStep: nextStep, code: code)
    }

    /// All of it in one text, for VoiceOver. The kind is a word, since colours and symbols are not heard.
    var spoken: String {
        let word =
            switch kind {
            case .success: ""
            case .progress: "In progress"
            case .problem: "Problem"
            case .unknown: "Not known"
            }
        return [word, title, reason, nextStep].filter { !$0.isEmpty }.joined(separator: ". ")
    }
}
