// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why what a person typed names no device.
public enum DeviceLookupError: Error, Hashable, Sendable {
    /// Nothing bears that name or id.
    case notFound
    /// Several do: never guessed between. In the order of their ids.
    case ambiguous([RemoteSystem])
}

extension DeviceDirectory {
    /// A shorter beginning of an id would rather be the beginning of a name.
    static let minimumPrefixCharacters = 4

    /// The device that a person means: by its id, by its name in any case, or by the beginning of its id. A new device is never meant by a name
    /// or a beginning that also fits one that is known.
    package func system(named text: String) throws(DeviceLookupError) -> RemoteSystem {
        let systems = devices(hidesLocalApp: false).values.map(\.system).sorted { $0.id < $1.id }
        // Compared by bytes: two texts that Unicode holds for equal are two names.
        let name = text.lowercased()
        let bytes = Array(name.utf8)
        if let exact = systems.first(where: { $0.id.description == name }) { return exact }
        let isPrefix = name.utf8.count >= Self.minimumPrefixCharacters
        // Both at once: a device that names itself like the beginning of another's id shall not be taken for it.
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
