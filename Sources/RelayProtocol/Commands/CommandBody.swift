// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The part of a command that only sender and target can read.
package enum CommandBody: Hashable, Sendable {
    /// Open a URI.
    case launch(LaunchRequest)
    /// One message to an app service.
    case message(service: String, ValueSet)

    package struct LaunchRequest: Codable, Hashable, Sendable {
        package var uri: LaunchURI
        /// The URI to open if no app handles `uri`.
        package var fallbackURI: LaunchURI?
        /// The apps that the sender prefers, the most preferred first; at most 64.
        package var preferredAppIDs: [String]?

        package init(uri: LaunchURI, fallbackURI: LaunchURI? = nil, preferredAppIDs: [String]? = nil) {
            self.uri = uri
            self.fallbackURI = fallbackURI
            self.preferredAppIDs = preferredAppIDs
        }
    }

    package var kind: CommandHeader.Kind {
        switch self {
        case .launch: .launch
        case .message: .message
        }
    }

    package func encodedBytes() throws -> [UInt8] {
        switch self {
        case .launch(let request): try ValueSetEncoder().encode(request).encodedBytes()
        case .message(let service, let message):
            try (["service": .string(service), "message": .valueSet(message)] as ValueSet).encodedBytes()
        }
    }

    package init(decoding bytes: [UInt8], kind: CommandHeader.Kind, limits: Limits) throws(CommandError) {
        guard let set = try? ValueSet(decoding: bytes) else { throw .malformedBody }
        switch kind {
        case .launch:
            guard let request = try? ValueSetDecoder().decode(LaunchRequest.self, from: set), (request.preferredAppIDs ?? []).count <= 64
            else {
                throw .malformedBody
            }
            for uri in [request.uri, request.fallbackURI] where uri.map({ $0.text.utf8.count > limits[.uriBytes] }) ?? false {
                throw .malformedBody
            }
            self = .launch(request)
        case .message:
            guard let service = set["service"]?.string, (1...limits[.serviceNameBytes]).contains(service.utf8.count),
                let message = set["message"]?.valueSet
            else {
                throw .malformedBody
            }
            self = .message(service: service, message)
        }
    }
}
