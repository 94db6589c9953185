// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a user's text identifies no device.
@nonexhaustive public enum RemoteSystemLookupError: Error, Hashable, Sendable {
    /// No device has that name or id.
    case notFound
    /// Several devices match, in the order of their ids. The directory never guesses between them.
    case ambiguous([RemoteSystem])
}

extension DeviceDirectory {
    /// A shorter prefix is more likely the beginning of a name than of an id.
    static let minimumPrefixCharacters = 4

    /// The device that a user's text identifies: by its id, by its name in any case, or by a prefix of its id. A name or prefix that
    /// matches a known device never selects a new one.
    package func system(named text: String) throws(RemoteSystemLookupError) -> RemoteSystem {
        let systems = devices(hidesLocalApp: false).values.map(\.system).sorted { $0.id < $1.id }
        // The bytes are compared, because Unicode considers some different texts equal.
        let name = text.lowercased()
        let bytes = Array(name.utf8)
        if let exact = systems.first(where: { $0.id.description == name }) { return exact }
        let isPrefix = name.utf8.count >= Self.minimumPrefixCharacters
        // Names and prefixes are matched together: a device whose name is the prefix of another device's id must not be mistaken for it.
        let all = systems.filter {
            $0.displayName.lowercased().utf8.elementsEqual(bytes) || isPrefix && $0.id.description.utf8.starts(with: bytes)
        }
        let known = all.filter { !$0.isNew }
        let matches = known.isEmpty ? all : known
        guard let match = matches.first else { throw .notFound }
        guard matches.count == 1 else { throw .ambiguous(matches) }
        return match
    }
}
