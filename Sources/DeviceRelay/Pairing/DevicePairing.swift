// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
public import RelayProtocol

/// This device, made visible to those on its network, so that one of them can be paired with it. It ends with the first pairing, after ten
/// minutes, after three wrong codes, when it is stopped, and when it is no longer referenced.
public final class DevicePairing: Sendable {
    /// What a person is shown.
    public enum State: Hashable, Sendable {
        /// It begins.
        case starting
        /// Another device can be paired, by one of these. Show them to the person who asked for it. After an attempt with a wrong code there is
        /// another code.
        /// - link: For a QR code; `nil` if this device has no address that others can use.
        /// - failures: The number of attempts that failed. After three it ends.
        case visible(code: PairingCode, link: PairingLink?, failures: Int)
        /// It is over: this device is paired.
        case paired(PairedDevice)
        /// It is over without a pairing.
        case failed(DevicePairingError)
    }

    private let endpoint: LocalEndpoint
    private let host: NIOLoopBound<PairingHost>
    private let current: CurrentValue<State>

    init(_ endpoint: LocalEndpoint, _ host: NIOLoopBound<PairingHost>, _ current: CurrentValue<State>) {
        (self.endpoint, self.host, self.current) = (endpoint, host, current)
    }

    deinit { stop() }

    /// The current state, then each change. It ends with the pairing.
    public var states: AsyncValues<State> {
        // Who reads them keeps it.
        AsyncValues(current) { [self] state in withExtendedLifetime(self) { state } }
    }

    /// Makes the device invisible. After a pairing it has no effect.
    public func stop() { endpoint.loop.execute { [host] in host.value.stop() } }
}

extension ConnectedDevicesPlatform {
    /// The anonymous endpoint, which is made at first use.
    func anonymous() async throws(DevicePairingError) -> LocalEndpoint {
        guard settings.nearby.mode != .off else { throw .disabled }
        do throws(AccountError) {
            try await accounts.add(.anonymous)
        } catch {
            throw DevicePairingError(.storageFailed, error.message, cause: error)
        }
        guard let endpoint = endpoint(of: ConnectedDevicesAccount.anonymous.id) else {
            throw DevicePairingError(.cancelled, "the platform was shut down")
        }
        return endpoint
    }

    /// Makes this device visible on its networks, so that another one can be paired with it: by the code that a person types there, or by the
    /// link. Neither needs an account or a relay. Paired devices find each other on one network only, and belong to
    /// `ConnectedDevicesAccount.anonymous`: host an app for that account to receive something from them.
    /// - Throws: `DevicePairingError`: `disabled`, `storageFailed`, `cancelled`.
    public func offerPairing() async throws(DevicePairingError) -> DevicePairing {
        let endpoint = try await anonymous()
        let (state, host) = try await endpoint.offerPairing()
        return DevicePairing(endpoint, host, state)
    }

    /// Pairs this device with the one that shows a link.
    /// - Throws: `DevicePairingError`.
    public func pair(by link: PairingLink) async throws(DevicePairingError) -> PairedDevice {
        let candidates = link.places.map { NearbyPeers.Candidate(instance: .root, address: $0.address, port: $0.port, interface: 0) }
        return try await anonymous().pair(at: candidates, by: .link(link))
    }

    /// Pairs this device with a visible one.
    /// - Parameters:
    ///   - device: One of `withVisibleDevices`, whose mode is `pair`.
    ///   - code: What that device shows now. After an attempt it shows another one.
    /// - Throws: `DevicePairingError`.
    public func pair(with device: VisibleDevice, by code: PairingCode) async throws(DevicePairingError) -> PairedDevice {
        try await anonymous().pair(at: device.candidates, by: .code(code))
    }

    /// Runs a closure with the devices on this network that a person has made visible, in both modes: those that are seen now, and then each
    /// change.
    /// - Throws: `DevicePairingError`, and the error of the closure.
    public func withVisibleDevices<Result: Sendable>(
        _ body: (AsyncValues<[VisibleDevice]>) async throws -> Result
    ) async throws -> Result {
        let endpoint = try await anonymous()
        let (devices, browser) = await endpoint.browse()
        defer { endpoint.loop.execute { endpoint.assumeIsolated { $0.stopBrowsing(browser) } } }
        return try await body(AsyncValues(devices) { $0 })
    }

    /// Ends a pairing. The other device is not told, and does not find this one any more.
    /// - Parameter endpoint: See `PairedDevice.endpoint`.
    /// - Returns: Whether there was one.
    /// - Throws: `DevicePairingError`: `storageFailed`.
    @discardableResult
    public func unpair(_ endpoint: EndpointID) async throws(DevicePairingError) -> Bool {
        guard let anonymous = self.endpoint(of: ConnectedDevicesAccount.anonymous.id) else { return false }
        return try await anonymous.unpair(endpoint)
    }
}
