// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import NIOCore
import RelayProtocol

/// The data and services that all parts of an endpoint share.
struct EndpointContext: Sendable {
    let account: ConnectedDevicesAccount
    let id: EndpointID
    /// `RelayID.none` in the anonymous account.
    let relay: RelayID
    /// Nothing is dialled in the anonymous account.
    let address: RelayAddress
    let relayURL: URL
    let settings: ConnectedDevicesPlatformSettings
    let accessTokens: any AccessTokenProvider
    let storage: AccountStorage
    let journal: Journal
    let identityKey: any IdentityKey
    let systemKey: any SystemKey
    let loop: EndpointLoop
    /// The state of the connection to the relay.
    let status: CurrentValue<LocalEndpoint.Link>
    let logger: Logger

    /// Whether the endpoint has no relay, and knows only endpoints that it was paired with.
    var isAnonymous: Bool { relay == .none }

    /// This device, with the name that a person gave it last.
    var device: DeviceDescription {
        var device = settings.device
        if let name = DeviceNameFile(settings).name { device.name = name }
        return device
    }

    var trust: RelayTrust { RelayTrust(relay: relay, authorities: settings.authorities) }

    var credentials: EndpointCredentials {
        EndpointCredentials(
            identityKey: identityKey,
            tokens: storage.tokens,
            relay: relay,
            address: address,
            trust: trust,
            now: settings.clock.wall
        )
    }

    var tokenRequest: AccessTokenRequest { tokenRequest(AccessTokenScope.all) }

    func tokenRequest(_ scopes: Set<AccessTokenScope>) -> AccessTokenRequest {
        var request = AccessTokenRequest(accountID: account.id, relay: relayURL, scopes: scopes)
        request.endpoint = credentials
        request.device = settings.device
        return request
    }
}

extension EndpointContext {
    /// Opens the journal of an endpoint whose keys exist.
    init(
        _ account: ConnectedDevicesAccount,
        _ storage: AccountStorage,
        _ settings: ConnectedDevicesPlatformSettings,
        _ accessTokens: any AccessTokenProvider,
        on eventLoop: any EventLoop
    ) throws {
        let identityKey = try storage.identityKey()
        let id = EndpointID(identityKey.publicKey)
        var logger = settings.logger
        logger[metadataKey: "endpoint"] = "\(id.label)"
        let relayURL = storage.scope.relay == .none ? ConnectedDevicesPlatformSettings.noRelay : try settings.relayURL
        self.init(
            account: account,
            id: id,
            relay: storage.scope.relay,
            address: try RelayAddress(relayURL, allowsPlaintext: settings.allowsPlainHTTP),
            relayURL: relayURL,
            settings: settings,
            accessTokens: accessTokens,
            storage: storage,
            journal: try Journal(
                path: storage.journalPath,
                endpoint: id,
                isExpected: try storage.hasSigned(),
                now: settings.clock.wall(),
                limits: settings.limits.all
            ),
            identityKey: identityKey,
            systemKey: try settings.systemKey.load(),
            loop: EndpointLoop(eventLoop, clock: settings.clock),
            status: CurrentValue(LocalEndpoint.Link(isEnumerated: storage.scope.relay == .none, accountName: try storage.accountName())),
            logger: logger
        )
    }
}
