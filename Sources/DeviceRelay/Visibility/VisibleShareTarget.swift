// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// A visible device that a transfer goes to. The first endpoint that answers is the receiver, and stays it.
final class VisibleShareTarget: ShareTarget {
    static let info = AppServiceInfo(name: ShareMessages.serviceName, appID: Greeting.info.appID)

    private static let patience = Duration.seconds(30)
    /// How long the other side may take to close the session.
    private static let closingPatience = Duration.seconds(2)

    private let device: VisibleDevice
    private let platform: ConnectedDevicesPlatform
    private let receiver = Mutex<EndpointID?>(nil)

    init(_ device: VisibleDevice, _ platform: ConnectedDevicesPlatform) { (self.device, self.platform) = (device, platform) }

    var endpoint: EndpointID? { receiver.withLock { $0 } }

    var ownName: String? {
        get async { try? await platform.anonymous().endpoint.device.name }
    }

    func connect() async throws(AppServiceError) -> BulkConnection {
        guard device.mode == .receive else {
            throw AppServiceError(.notAuthorized, message: "the device is visible to be paired, and receives nothing")
        }
        let dialer: VisibleDialer
        do {
            dialer = try VisibleDialer(try await platform.anonymous().endpoint)
        } catch {
            throw AppServiceError(.failure, message: "this device cannot send: \(error)", cause: error)
        }
        let (session, candidate): (PeerSession, NearbyPeers.Candidate)
        do throws(VisibleDialer.Failure) {
            (session, candidate) = try await dialer.session(at: device.candidates, expecting: endpoint)
        } catch {
            throw AppServiceError(error)
        }
        receiver.withLock { $0 = session.peer }
        let connection: AppServiceConnection
        do throws(AppServiceError) {
            connection = try await session.open(Self.info, timeout: Self.patience)
        } catch {
            await session.shutDown()
            throw error
        }
        return BulkConnection(connection) { (token) throws(AppServiceError) in
            try await dialer.openBulk(token, to: session.peer, at: candidate)
        } end: {
            // It ends with the connection.
            session.drain()
            _ = await within(Self.closingPatience) { await session.ended() }
            await session.shutDown()
        }
    }
}

extension NearShareSender {
    /// The app that receives on a visible device.
    package static var appIDOfStrangers: String { VisibleShareTarget.info.appID }
}

extension AppServiceError {
    fileprivate init(_ failure: VisibleDialer.Failure) {
        switch failure {
        case .noNetwork: self.init(.networkNotAvailable, message: "this device has no network", cause: failure)
        case .notReached:
            self.init(.remoteSystemUnavailable, message: "the device is not reached on this network", cause: failure)
        case .notVisible: self.init(.remoteSystemUnavailable, message: "the device is not visible any more", cause: failure)
        case .ownDevice: self.init(.notSupported, message: "this is the device itself", cause: failure)
        case .cancelled: self.init(.cancelled, message: "it was cancelled", cause: failure)
        }
    }
}
