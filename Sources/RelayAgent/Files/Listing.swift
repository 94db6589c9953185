// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The pages of one folder's listing. It checks all data of the other device before use, and bounds the listing.
struct Listing {
    /// The use of the entries, which determines the bounds.
    enum Use {
        /// Each page is handled before the next one is requested.
        case pages
        /// The whole listing is kept in memory.
        case whole

        var maximumEntries: Int {
            switch self {
            case .pages: 1_000_000
            case .whole: 100_000
            }
        }
    }

    /// The bound for names and etags.
    static let maximumBytes = 64 << 20
    /// The bound for an escaped name: 8 bytes for each of its bytes.
    private static let maximumShownBytes = 8 * EntryName.maximumBytes
    /// The bound for what a page leaves out without a name. It keeps sums small.
    private static let maximumUnnamed = 1 << 32
    /// The bound for the wait for responses, all pages together.
    static let maximumWait = Duration.seconds(600)

    let path: String
    let use: Use
    /// The last name received: the next page starts after it.
    private(set) var after: EntryName?
    private(set) var isAtEnd = false
    private var count = 0
    private var bytes = 0
    private var waited = Duration.zero
    private var omissions = 0

    /// - Parameter after: The name that the listing goes on after; `nil` for all of it.
    init(_ path: String, _ use: Use, after: EntryName? = nil) {
        (self.path, self.use, self.after) = (path, use, after)
    }

    /// The time limit of the next page.
    func timeLeft() throws(AgentError) -> Duration {
        guard waited < Self.maximumWait else { throw tooLarge("takes longer than \(Self.maximumWait.components.seconds / 60) minutes") }
        return Self.maximumWait - waited
    }

    /// Adds the next page.
    mutating func add(
        _ entries: [FileServiceMessages.Entry],
        more: Bool,
        waited: Duration
    ) throws(AgentError) -> [(name: EntryName, entry: RemoteEntry)] {
        count += entries.count
        self.waited += waited
        guard entries.count <= FileServiceMessages.maximumEntries else {
            throw Self.invalid(path, "a page has more than \(FileServiceMessages.maximumEntries) entries")
        }
        guard !more || !entries.isEmpty else { throw Self.invalid(path, "a page is empty and not the last") }
        var page: [(name: EntryName, entry: RemoteEntry)] = []
        for entry in entries {
            guard entry.name.utf8.count <= EntryName.maximumBytes else {
                throw Self.invalid(path, "a name has more than \(EntryName.maximumBytes) bytes")
            }
            guard let name = EntryName(entry.name) else {
                throw AgentError(
                    "nameNotAllowed",
                    "the other device lists a name in \(Self.shown(path)) that is not allowed here: '\(entry.name)'",
                    .failed
                )
            }
            // Ensures that no name and no page is repeated.
            if let after, !(after < name) { throw Self.invalid(path, "the names are not in the order of their bytes") }
            page.append((name, try RemoteEntry(entry, path)))
            after = name
            bytes += entry.name.utf8.count + entry.etag.utf8.count
        }
        guard bytes <= Self.maximumBytes else { throw tooLarge("has more than \(Self.maximumBytes >> 20) MiB of names") }
        guard count <= use.maximumEntries else {
            let advice = use == .whole ? "; list a folder in it, or fetch all of it with -r" : ""
            throw tooLarge("has more than \(use.maximumEntries) files and folders\(advice)")
        }
        isAtEnd = !more
        return page
    }

    /// Adds what the other device left out of the same page.
    mutating func add(omitted: [FileServiceMessages.Omission], more: Int) throws(AgentError) -> [LeftOut] {
        guard omitted.count <= FileServiceMessages.maximumEntries, (0...Self.maximumUnnamed).contains(more),
            omitted.allSatisfy({ $0.name.utf8.count <= Self.maximumShownBytes && $0.reason.utf8.count <= 64 })
        else { throw Self.invalid(path, "what it left out is not valid") }
        bytes += omitted.reduce(0) { $0 + $1.name.utf8.count }
        omissions += omitted.count
        guard bytes <= Self.maximumBytes, omissions <= use.maximumEntries else { throw tooLarge("leaves out too much") }
        return omitted.map { LeftOut($0, in: path) } + (more > 0 ? [LeftOut(more, in: path)] : [])
    }

    private func tooLarge(_ what: String) -> AgentError {
        AgentError("listingTooLarge", "the other device's listing of \(Self.shown(path)) \(what)", .failed)
    }

    static func invalid(_ path: String, _ why: String) -> AgentError {
        AgentError("listingInvalid", "the other device's answer about \(shown(path)) is not valid: \(why)", .failed)
    }

    private static func shown(_ path: String) -> String { path.isEmpty ? "the folder" : "'\(path)'" }
}
