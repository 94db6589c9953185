// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// What a command carries.
public enum RemoteCommandContent: Hashable, Sendable {
    /// The launch of a URI.
    case launch(LaunchURI, fallback: LaunchURI?)
    /// A message to an app service of this name.
    case message(service: String)

    /// The URI of a launch.
    public var uri: LaunchURI? {
        guard case .launch(let uri, _) = self else { return nil }
        return uri
    }

    init(_ body: CommandBody) {
        switch body {
        case .launch(let request): self = .launch(request.uri, fallback: request.fallbackURI)
        case .message(let service, _): self = .message(service: service)
        }
    }
}
