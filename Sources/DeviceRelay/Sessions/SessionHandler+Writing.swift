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

    func flush() {
        guard let stream, stream.needsFlush else { return }
        let replies = machine.repliesWritten
        if replies > repliesMarked || !leaving.isEmpty {
            repliesMarked = replies
            let promise = eventLoop.makePromise(of: Void.self)
            let left = leaving
            leaving = AnswerPlace()
            promise.futureResult.assumeIsolated().whenComplete { result in
                self.release(left)
                if case .success = result { self.machine.flushed(repliesUpTo: replies) }
            }
            stream.flush(promise)
        } else {
            stream.flush()
        }
    }

    /// Frees the memory of responses that have left, or that will not be sent.
    func release(_ place: AnswerPlace) {
        if place.largeBytes > 0 { memory.answers.release(place.largeBytes) }
        link?.smallAnswersLeft(place.smallBytes)
    }

    /// Sends slices of message bodies, within the granted windows, while the channel is writable.
    func sendData() {
        guard machine.hasData, let stream else { return }
        for _ in 0..<Self.flushesPerTick where machine.hasData && stream.isWritable {
            for _ in 0..<Self.slicesPerFlush { change { $0.nextData(at: $1, into: &$2) } }
            flush()
        }
        if machine.hasData, stream.isWritable { scheduleWriting() }
    }

    func scheduleWriting() {
        guard !isWritingScheduled else { return }
        isWritingScheduled = true
        eventLoop.assumeIsolated().execute {
            self.isWritingScheduled = false
            self.settle()
        }
    }

    /// Closes the stream of an ended session after all data is written, or after `closingTime`.
    func close() {
        asking?.close()
        guard let stream else { return finish() }
        stream.closeWhenWritten()
        closeSoon()
    }

    /// Closes the stream after `closingTime`, even if the peer does not read.
    func closeSoon() {
        guard let stream, closeTimer == nil else { return }
        closeTimer = eventLoop.assumeIsolated().scheduleTask(in: PeerSession.closingTime) { stream.close() }
    }

    // MARK: Time

    func setTimer() {
        guard machine.end == nil, let due = machine.nextDeadline else {
            timer?.scheduled.cancel()
            timer = nil
            return
        }
        let next = min(due, asks.nextDeadline ?? due)
        // An earlier timer stays: when it fires, it sets the next one.
        if let timer, timer.at <= next { return }
        timer?.scheduled.cancel()
        let delay = TimeAmount(next - now)
        timer = (next, eventLoop.assumeIsolated().scheduleTask(in: delay) { self.timerFired() })
    }

    private func timerFired() {
        timer = nil
        let now = now
        while let token = asks.popDue(at: now) { giveUp(token, .timedOut) }
        if let due = machine.nextDeadline, now >= due { change { $0.handleDeadlines(at: $1, into: &$2) } }
        settle()
    }
}
