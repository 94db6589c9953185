// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol

/// Dials the relay, and tracks the connections that are not closed yet.
final class RelayDialer {
    private let endpoint: EndpointContext
    private var dial: ControlDial?
    /// The attempts whose connections are not closed yet, including the current one.
    private var open: Set<Int> = []
    private var whenClosed: [CheckedContinuation<Void, Never>] = []
    /// The address of the latest attempt.
    private(set) var address: RelayAddress
    /// The current connection.
    var socket: ControlConnection?
    var onEvent: (ControlConnection.Event, Int) -> Void = { _, _ in }

    init(_ endpoint: EndpointContext) {
        self.endpoint = endpoint
        self.address = endpoint.address
    }

    /// - Parameter url: A URL that the relay named, or `nil` for the configured one.
    /// - Returns: The reason if the URL is not dialled.
    func dial(_ attempt: Int, _ url: String?) -> DialFailure? {
        var target = endpoint.address
        if let url {
            let allowsPlaintext = endpoint.settings.allowsPlainHTTP
            guard let other = URL(exactly: url).flatMap({ try? RelayAddress($0, allowsPlaintext: allowsPlaintext) }),
                target.mayName(other)
            else { return .protocolError("the relay named an address that cannot be dialled") }
            target = other
        }
        address = target
        let loop = endpoint.loop.eventLoop
        let bound = NIOLoopBound(Weak(self), eventLoop: loop)
        dial = ControlChannelClient(group: loop).dial(target, trust: endpoint.trust) { event in
            // The client uses this loop, so the event arrives on it.
            bound.value.object?.take(event, of: attempt)
        }
        return nil
    }

    private func take(_ event: ControlConnection.Event, of attempt: Int) {
        if case .opened = event { open.insert(attempt) }
        if case .closed = event { open.remove(attempt) }
        onEvent(event, attempt)
        guard open.isEmpty else { return }
        let waiting = whenClosed
        whenClosed = []
        for continuation in waiting { continuation.resume() }
    }

    /// Closes the current connection, or cancels the current attempt.
    func close(code: UInt16, reason: String) {
        dial?.cancel()
        dial = nil
        socket?.close(code: code, reason: reason)
        socket = nil
    }

    /// Waits until no connection is open.
    func closed() async {
        guard !open.isEmpty else { return }
        await withCheckedContinuation { whenClosed.append($0) }
    }

    func end() {
        dial?.cancel()
        dial = nil
    }
}

extension RelayAddress {
    /// Whether the relay at this address can have another one. Without TLS, the other one cannot prove that it is the relay. A relay elsewhere
    /// has no address that leads to this device itself.
    func mayName(_ other: RelayAddress) -> Bool {
        (other.isEncrypted || !isEncrypted) && (RelayHosts.isThisDevice(host) || !RelayHosts.isThisDevice(other.host))
    }
}
