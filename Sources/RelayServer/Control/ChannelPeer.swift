// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A control channel as the core uses it. Messages that the core sends in one batch leave with one flush.
final class ChannelPeer: ControlPeer {
    enum Item: Sendable {
        case message(RelayMessage, whenWritten: (@Sendable () -> Void)?)
        case close(code: UInt16, reason: String)
    }

    private let handler: NIOLoopBound<ControlChannelHandler>
    private let eventLoop: any EventLoop
    private let waiting = Mutex<[Item]>([])

    /// Must be called on the event loop.
    init(handler: ControlChannelHandler, eventLoop: any EventLoop) {
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
        self.eventLoop = eventLoop
    }

    func send(_ message: RelayMessage, whenWritten: (@Sendable () -> Void)?) { enqueue(.message(message, whenWritten: whenWritten)) }

    func close(code: UInt16, reason: String) { enqueue(.close(code: code, reason: reason)) }

    func resume() {
        eventLoop.execute { self.handler.value.resume() }
    }

    /// Always uses the loop's queue, even on the loop, so that messages of several threads keep their order.
    private func enqueue(_ item: Item) {
        let isFirst = waiting.withLock { waiting in
            waiting.append(item)
            return waiting.count == 1
        }
        guard isFirst else { return }
        eventLoop.execute {
            let items = self.waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }
            self.handler.value.deliver(items)
        }
    }
}
