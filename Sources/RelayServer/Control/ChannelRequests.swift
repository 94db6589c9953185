// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// What a control channel asks of other parts, which answer later, on any thread: the check of its token, the core's answer to its hello,
/// and the revocation of its logins.
final class ChannelRequests {
    private let services: ControlServices
    private let eventLoop: any EventLoop
    private let handler: NIOLoopBound<ControlChannelHandler>
    /// The client's network, as limits count it.
    private let address: String
    private var observers: [RevocationObserver] = []

    init(_ services: ControlServices, of handler: ControlChannelHandler, from client: IPAddress?, on eventLoop: any EventLoop) {
        self.services = services
        self.address = client?.network.description ?? ""
        self.eventLoop = eventLoop
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
    }

    func checkToken(_ token: String, endpointKey: SigningPublicKey) {
        services.verify(token: token, endpointKey: endpointKey, address: address) { [handler, eventLoop] result in
            eventLoop.execute { handler.value.input { $0.tokenChecked(result, $1) } }
        }
    }

    func connect(_ hello: ProvedHello) {
        services.core.connect(hello, peer: ChannelPeer(handler: handler.value, eventLoop: eventLoop)) { [handler, eventLoop] result in
            eventLoop.execute { handler.value.input { $0.coreAnswered(result, $1) } }
        }
    }

    /// Follows these logins in place of the earlier ones.
    func follow(_ logins: [Login]) {
        cancel()
        observers = logins.map { login in
            services.tokens.follow(login) { [handler, eventLoop] in
                eventLoop.execute { handler.value.input { $0.loginRevoked(login, $1) } }
            }
        }
    }

    /// Follows no logins any more.
    func cancel() {
        for observer in observers { observer.cancel() }
        observers = []
    }
}
