// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The pages of one folder's listing. What another device says is checked here before any of it is used, and every listing has an end.
struct Listing {
    static let maximumPages = 2_000
    /// Of names and etags.
    static let maximumBytes = 64 << 20
    /// Of waiting for answers, all pages together.
    static let maximumWait = Duration.seconds(600)

    let path: String
    /// The last name that came: the next page begins behind it.
    private(set) var after: EntryName?
    private(set) var isAtEnd = false
    private var pages = 0
    private var bytes = 0
    private var waited = Duration.zero

    init(_ path: String) { self.path = path }

    /// How long the next page may take at most.
    func timeLeft() throws(AgentError) -> Duration {
        guard waited < Self.maximumWait else { throw tooLarge("takes longer than \(Self.maximumWait.components.seconds / 60) minutes") }
        return Self.maximumWait - waited
    }

    /// Takes the next page.
    mutating func add(
        _ entries: [FileCalls.Entry],
        more: Bool,
        waited: Duration
    ) throws(AgentError) -> [(name: EntryName, entry: RemoteEntry)] {
        pages += 1
        self.waited += waited
        guard entries.count <= FileCalls.maximumEntries else {
            throw Self.invalid(path, "a page has more than \(FileCalls.maximumEntries) entries")
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
            // So no name comes twice, and no page again.
            if let after, !(after < name) { throw Self.invalid(path, "the names are not in the order of their bytes") }
            page.append((name, try RemoteEntry(entry, path)))
            after = name
            bytes += entry.name.utf8.count + entry.etag.utf8.count
        }
        guard bytes <= Self.maximumBytes else { throw tooLarge("has more than \(Self.maximumBytes >> 20) MiB of names") }
        isAtEnd = !more
        guard isAtEnd || pages < Self.maximumPages else { throw tooLarge("has more than \(Self.maximumPages) pages") }
        return page
    }

    private func tooLarge(_ what: String) -> AgentError {
        AgentError("listingTooLarge", "the other device's listing of \(Self.shown(path)) \(what)", .failed)
    }

    static func invalid(_ path: String, _ why: String) -> AgentError {
        AgentError("listingInvalid", "the other device's answer about \(shown(path)) is not valid: \(why)", .failed)
    }

    private static func shown(_ path: String) -> String { path.isEmpty ? "the folder" : "'\(path)'" }
}
