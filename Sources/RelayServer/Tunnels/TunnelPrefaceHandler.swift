// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Reads the preface of a plain connection, admits the connection to its tunnel, and then leaves the pipeline.
final class TunnelPrefaceHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// How long the client may take to read a rejection.
    private static let closingTime = TimeAmount.seconds(2)

    private let gate: any TunnelGate
    private let patience: TimeAmount
    private let metrics: TunnelMetrics
    private let dataPath: any TunnelDataPath
    private let known: () -> Void
    private var preface = ByteBuffer()
    private var isDone = false
    private var timeout: Scheduled<Void>?

    /// - Parameters:
    ///   - patience: how long the preface may take.
    ///   - dataPath: carries the tunnel's bytes.
    ///   - known: called when the tunnel is paired.
    init(
        gate: any TunnelGate,
        patience: TimeAmount,
        metrics: TunnelMetrics,
        dataPath: any TunnelDataPath,
        known: @escaping () -> Void
    ) {
        self.gate = gate
        self.patience = patience
        self.metrics = metrics
        self.dataPath = dataPath
        self.known = known
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timeout = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { timeout?.cancel() }

    func channelInactive(context: ChannelHandlerContext) {
        timeout?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        var bytes = Self.unwrapInboundIn(data)
        if var piece = bytes.readSlice(length: min(bytes.readableBytes, TunnelPreface.byteCount - preface.readableBytes)) {
            preface.writeBuffer(&piece)
        }
        guard preface.readableBytesView.prefix(TunnelPreface.magic.count).elementsEqual(TunnelPreface.magic.prefix(preface.readableBytes))
        else {
            // A client of another protocol would not understand the status.
            isDone = true
            return context.close(promise: nil)
        }
        guard let preface = TunnelPreface(bytes: preface.readableBytesView) else { return }
        isDone = true
        enter(preface, early: bytes, context: context)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed, is ChannelShouldQuiesceEvent: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func enter(_ preface: TunnelPreface, early: ByteBuffer, context: ChannelHandlerContext) {
        let greeting = TunnelHandler.Greeting(
            transport: .tcp,
            accept: { [known] _ in
                known()
                context.channel.writeAndFlush(ByteBuffer(integer: TunnelStatus.paired.rawValue), promise: nil)
            },
            refuse: { Self.refuse($0, channel: context.channel) }
        )
        let handler = TunnelHandler(
            tunnel: preface.tunnel,
            channel: context.channel,
            gate: gate,
            greeting: greeting,
            metrics: metrics,
            dataPath: dataPath,
            early: early
        )
        guard handler.enter(token: preface.token.exposed.bytes) else {
            metrics.rejectedEntry()
            timeout?.cancel()
            return Self.refuse(.refused, channel: context.channel)
        }
        do {
            try context.pipeline.syncOperations.addHandler(handler)
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        } catch {
            context.close(promise: nil)
        }
    }

    /// An immediate close could destroy the status if bytes follow the preface unread.
    private static func refuse(_ status: TunnelStatus, channel: any Channel) {
        channel.writeAndFlush(ByteBuffer(integer: status.rawValue)).whenComplete { _ in
            channel.close(mode: .output, promise: nil)
            channel.eventLoop.scheduleTask(in: closingTime) { channel.close(promise: nil) }
        }
    }
}
