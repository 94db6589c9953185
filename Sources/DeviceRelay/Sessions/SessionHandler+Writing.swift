// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

extension SessionHandler {
    /// Messages of at least this size are written as separate buffers. Smaller ones are copied into the buffer of outgoing frames.
    static let copiedBytes = 8 << 10
    /// The buffer of outgoing frames is passed on when it reaches this size.
    static let outgoingBytes = 64 << 10
    /// The limit of message data in one iteration of the event loop, so that other channels can proceed: flushes, and slices for each
    /// flush.
    static let flushesPerTick = 4
    static let slicesPerFlush = 2

    func write(_ frame: SessionFrame) {
        guard context != nil else { return }
        if outgoing.capacity == 0 { outgoing.reserveCapacity(1 << 10) }
        if var message = SessionFrameEncoder.writeHead(of: frame, to: &outgoing) {
            if message.readableBytes < Self.copiedBytes {
                outgoing.writeBuffer(&message)
            } else {
                writeOutgoing()
                context?.write(wrapOutboundOut(message), promise: nil)
            }
        }
        needsFlush = true
        if outgoing.readableBytes >= Self.outgoingBytes { writeOutgoing() }
    }

    private func writeOutgoing(promise: EventLoopPromise<Void>? = nil) {
        guard outgoing.readableBytes > 0 || promise != nil else { return }
        context?.write(wrapOutboundOut(outgoing), promise: promise)
        // A new buffer, because the channel now holds the old one.
        outgoing = ByteBuffer()
    }

    func flush() {
        guard needsFlush, let context else { return }
        needsFlush = false
        let replies = machine.repliesWritten
        if replies > repliesMarked || !leaving.isEmpty {
            repliesMarked = replies
            let promise = context.eventLoop.makePromise(of: Void.self)
            let left = leaving
            leaving = AnswerPlace()
            promise.futureResult.assumeIsolated().whenComplete { result in
                self.release(left)
                if case .success = result { self.machine.flushed(repliesUpTo: replies) }
            }
            writeOutgoing(promise: promise)
        } else {
            writeOutgoing()
        }
        context.flush()
    }

    /// Frees the memory of responses that have left, or that will not be sent.
    func release(_ place: AnswerPlace) {
        if place.largeBytes > 0 { memory?.answers.release(place.largeBytes) }
        link?.smallAnswersLeft(place.smallBytes)
    }

    /// Sends slices of message bodies, within the granted windows, while the channel is writable.
    func sendData() {
        guard machine.hasData, let context else { return }
        for _ in 0..<Self.flushesPerTick where machine.hasData && context.channel.isWritable {
            for _ in 0..<Self.slicesPerFlush { change { $0.nextData(at: $1, into: &$2) } }
            flush()
        }
        if machine.hasData, context.channel.isWritable { scheduleWriting() }
    }

    func scheduleWriting() {
        guard !isWritingScheduled, let context else { return }
        isWritingScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isWritingScheduled = false
            self.settle()
        }
    }

    /// Closes the channel of an ended session after all data is written, or after `closingTime`.
    func close() {
        guard let context else { return }
        let channel = context.channel
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { _ in channel.close(promise: nil) }
        writeOutgoing(promise: promise)
        context.flush()
        closeSoon()
    }

    /// Closes the channel after `closingTime`, even if the peer does not read.
    func closeSoon() {
        guard let channel = context?.channel, closeTimer == nil else { return }
        closeTimer = channel.eventLoop.scheduleTask(in: PeerSession.closingTime) { channel.close(promise: nil) }
    }

    // MARK: Time

    func setTimer() {
        guard machine.end == nil, let context, let due = machine.nextDeadline else {
            timer?.scheduled.cancel()
            timer = nil
            return
        }
        let next = min(due, asks.nextDeadline ?? due)
        // An earlier timer stays: when it fires, it sets the next one.
        if let timer, timer.at <= next { return }
        timer?.scheduled.cancel()
        let delay = TimeAmount(next - now)
        timer = (next, context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.timerFired() })
    }

    private func timerFired() {
        timer = nil
        let now = now
        while let token = asks.popDue(at: now) { giveUp(token, .timedOut) }
        if let due = machine.nextDeadline, now >= due { change { $0.handleDeadlines(at: $1, into: &$2) } }
        settle()
    }
}
