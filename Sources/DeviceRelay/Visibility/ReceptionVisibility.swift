// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// This device, made visible to those on its network, so that strangers can send to it. It ends after ten minutes, after many refusals, when
/// it is stopped, and when it is no longer referenced.
public final class ReceptionVisibility: Sendable {
    /// What a person is shown.
    public enum State: Hashable, Sendable {
        /// It begins.
        case starting
        /// Everyone on the network sees this device's name, and may ask to send.
        case visible
        /// The device is not visible any more. What was accepted before goes on.
        case finishing
        /// It is over.
        case ended(End)
        /// It is over, because the device cannot be made visible.
        case failed(NearShareError)
    }

    /// Why it is over.
    public enum End: String, Hashable, Sendable {
        /// The ten minutes have passed.
        case timedOut
        /// A person has declined, or not answered, twelve times.
        case tooManyRefusals
        /// `stop` was called, or the platform was shut down.
        case stopped
    }

    private let endpoint: LocalEndpoint
    private let host: NIOLoopBound<ReceptionHost>
    private let current: CurrentValue<State>

    init(_ endpoint: LocalEndpoint, _ host: NIOLoopBound<ReceptionHost>, _ current: CurrentValue<State>) {
        (self.endpoint, self.host, self.current) = (endpoint, host, current)
    }

    deinit { stop() }

    /// The current state, then each change. It ends when it is over.
    public var states: AsyncValues<State> {
        // Who reads them keeps it.
        AsyncValues(current) { [self] state in withExtendedLifetime(self) { state } }
    }

    /// Ends it, and the transfers that run.
    public func stop() { endpoint.loop.execute { [host] in host.value.stop() } }
}

extension ConnectedDevicesPlatform {
    /// Makes this device visible on its networks for ten minutes, so that strangers there can send to it: devices that are neither of an
    /// account nor paired. Neither side needs an account or a relay. A person has to ask for it each time.
    ///
    /// Everyone on the network reads the device's name, its kind and what it was made visible for. Whoever connects learns the id of its
    /// endpoint of `ConnectedDevicesAccount.anonymous`, which stays the same. Strangers reach nothing but the handler.
    /// - Parameter handler: Its `decide` asks the person about each offer. The sender's name is its own claim
    ///   (`AppServiceCaller.isStranger`). An address is asked about three times without a yes, one at a time.
    /// - Throws: `NearShareError`: `disabled` unless the settings' `nearby.mode` is `visible`, `platformError`, `cancelled`.
    public func offerReception(_ handler: SharingHandler) async throws(NearShareError) -> ReceptionVisibility {
        guard settings.nearby.mode != .known else {
            throw NearShareError(.disabled, "the settings of this device do not permit that strangers see it")
        }
        do throws(DevicePairingError) {
            let endpoint = try await anonymous()
            let (state, host) = await endpoint.offerReception(handler)
            return ReceptionVisibility(endpoint, host, state)
        } catch {
            throw NearShareError(error)
        }
    }
}
