// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import Synchronization

/// What the receiving side of an endpoint keeps between transfers.
final class ShareReceiver: Sendable {
    /// How long a transfer waits for an earlier one of the same sender and name, whose connection may be lost: the session is then probed.
    private static let patience = Duration.seconds(6)

    /// A reception whose offer is decided.
    fileprivate struct Active: Sendable {
        let attempt: ShareAttempt
        let offer: ShareOffer
        /// Settled to end it, because its sender continues on another connection.
        let replaced: OneShot<Void>
        let ended: OneShot<Void>

        /// Whether both are attempts to send the same.
        func isSame(as other: Active) -> Bool { attempt == other.attempt || offer.entries == other.offer.entries }
    }

    private struct State {
        var running: [EndpointID: Int] = [:]
        var active: [ObjectIdentifier: Active] = [:]
        /// The devices whose offer is being decided, with the end of the decision.
        var deciding: [EndpointID: OneShot<Void>] = [:]
        /// The latest attempts whose content another attempt of their sender now sends.
        var superseded = RecentAttempts<Void>()
        /// The folders of the latest accepted offers.
        var accepted = RecentAttempts<String>()
        /// The results of the latest complete ones. A sender that did not get the result asks again.
        var finished = RecentAttempts<ShareMessages.Finish.Response>()
    }

    let streams: BulkStreams
    let room: ShareRoom
    private let state = Mutex(State())

    init(_ streams: BulkStreams, room: ShareRoom = ShareRoom(reserve: 1 << 30)) { (self.streams, self.room) = (streams, room) }

    /// The app service of an app that receives.
    func service(_ handler: SharingHandler) -> AppService {
        AppService(ShareMessages.serviceName) { [self] connection, caller in
            let hasPlace = state.withLock { state in
                let own = state.running[caller.endpoint, default: 0]
                let all = state.running.values.reduce(0, +)
                guard own < SharingHandler.transfersOfADevice, all < SharingHandler.transfers else { return false }
                state.running[caller.endpoint] = own + 1
                return true
            }
            guard hasPlace else { throw AppServiceError(.resourceLimitsExceeded, message: "too many transfers run here") }
            defer {
                state.withLock { state in
                    let left = state.running[caller.endpoint, default: 1] - 1
                    state.running[caller.endpoint] = left > 0 ? left : nil
                }
            }
            await ShareReception(self, handler, caller).serve(connection)
        }
    }

    /// Enters a reception, and waits until no other one holds the places of its files. The newest attempt to send a content ends the others:
    /// their connections are lost, or their process was ended. Another content of the same name gets a place of its own, unless the
    /// connection of the other is soon noticed to be lost.
    /// - Throws: `busy` if a newer attempt sends the content now.
    fileprivate func enter(_ active: Active) async throws(ShareFailure) {
        let others: [Active]? = state.withLock { state in
            let others = state.active.values.filter { other in
                other.attempt.sender == active.attempt.sender
                    && (other.attempt == active.attempt || other.offer.overlaps(active.offer))
            }
            let same = others.filter { $0.isSame(as: active) }
            guard same.isEmpty || state.superseded[active.attempt] == nil else { return nil }
            for other in same where other.attempt != active.attempt { state.superseded.add((), of: other.attempt) }
            state.active[ObjectIdentifier(active.ended)] = active
            return others
        }
        guard let others else { throw ShareFailure(.busy) }
        for other in others {
            guard !other.isSame(as: active) else {
                other.replaced.settle(())
                _ = await other.ended.wait()
                continue
            }
            _ = await within(Self.patience) { await other.ended.wait() }
        }
    }

    fileprivate func leave(_ ended: OneShot<Void>) {
        state.withLock { $0.active[ObjectIdentifier(ended)] = nil }
        ended.settle(())
    }

    fileprivate func acceptedFolder(_ attempt: ShareAttempt) -> String? { state.withLock { $0.accepted[attempt] } }

    fileprivate func accepted(_ attempt: ShareAttempt, into folder: String) {
        state.withLock { $0.accepted.add(folder, of: attempt) }
    }

    fileprivate func result(_ attempt: ShareAttempt) -> ShareMessages.Finish.Response? { state.withLock { $0.finished[attempt] } }

    fileprivate func finished(_ attempt: ShareAttempt, _ response: ShareMessages.Finish.Response) {
        let items = (response.names ?? []).count + (response.failed ?? []).count
        state.withLock { $0.finished.add(response, of: attempt, items: items) }
    }

    /// Lets the app decide about an offer. A device has one question at a time, so that it cannot fill a screen with them.
    fileprivate func decide(_ handler: SharingHandler, _ offer: SharingHandler.Offer) async -> SharingHandler.Answer? {
        await within(SharingHandler.patience) { [self] in
            let ended = OneShot<Void>()
            while let other = state.withLock({ state in
                let other = state.deciding[offer.caller.endpoint]
                if other == nil { state.deciding[offer.caller.endpoint] = ended }
                return other
            }) {
                guard await other.wait() != nil else { return nil }
            }
            defer {
                state.withLock { $0.deciding[offer.caller.endpoint] = nil }
                ended.settle(())
            }
            return await handler.decide(offer)
        }
    }
}

/// The receiving side of one connection of a sender.
private actor ShareReception {
    /// How long the sender may take for its offer, and to open the stream that it was told.
    private static let senderPatience = Duration.seconds(60)

    private enum Phase {
        case collecting(ShareOfferCollector)
        case deciding
        /// The transfer runs, or its bulk stream has ended.
        case running(ShareOffer, SharingHandler.Offer, ShareSink?, folder: String)
        case over(ShareMessages.Finish.Response, SharingHandler.Offer)
        case failed(ShareMessages.Problem)
    }

    /// A transfer whose content is to be read.
    private struct Accepted {
        let offer: SharingHandler.Offer
        let sink: ShareSink
        let stream: BulkStreams.Expected
    }

    private let receiver: ShareReceiver
    private let handler: SharingHandler
    private var caller: AppServiceCaller
    private var phase: Phase
    private let accepted = OneShot<Accepted>()
    private let content = OneShot<ShareMessages.Problem?>()
    private let token = OneShot<BulkStreams.Expected>()
    private var sink: ShareSink?
    private var shown: SharingHandler.Offer?
    private let replaced = OneShot<Void>()
    private let ended = OneShot<Void>()

    init(_ receiver: ShareReceiver, _ handler: SharingHandler, _ caller: AppServiceCaller) {
        (self.receiver, self.handler, self.caller) = (receiver, handler, caller)
        phase = .collecting(ShareOfferCollector(most: caller.isStranger ? ShareLimits.strangerPages : ShareLimits.pages))
    }

    /// Serves the connection until the sender closes it.
    func serve(_ connection: AppServiceConnection) async {
        await receiver.streams.expecting(from: caller.endpoint) { stream in
            token.settle(stream)
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    await self.readContent()
                    // A broken stream ends the connection too: the sender tries again. It is told any other problem when it asks.
                    if self.content.value == .some(.busy) { connection.close() }
                }
                group.addTask { if await self.replaced.wait() != nil { connection.close() } }
                group.addTask {
                    // An idle connection keeps a place from others.
                    guard (try? await Task.sleep(for: Self.senderPatience)) != nil else { return }
                    if await self.waitsForOffer { connection.close() }
                }
                try? await connection.respond(concurrently: 4) { try await self.answer($0.message) }
                group.cancelAll()
            }
        }
        await sink?.close()
        receiver.leave(ended)
        if let shown, let failure { handler.failed(shown, failure) }
        guard case .over(_, let offer) = phase else { return }
        // A sender that has the result closes the connection.
        let closure = try? await connection.closed
        handler.ended(offer, closure?.status == .completed)
    }

    /// Why this device could not store what was sent.
    private var failure: NearShareError.Code? {
        var problem = content.value ?? nil
        if case .failed(let known) = phase { problem = known }
        switch problem {
        case .diskFull: return .remoteDiskFull
        case .notWritable: return .remoteNotWritable
        default: return nil
        }
    }

    private var waitsForOffer: Bool { if case .collecting = phase { true } else { false } }

    // MARK: Requests

    private func answer(_ message: ValueSet) async throws -> ValueSet {
        switch message["Type"]?.string {
        case ShareMessages.Offer.type: try ValueSetEncoder().encode(await take(try Self.decode(ShareMessages.Offer.self, message)))
        case ShareMessages.Progress.type: try ValueSetEncoder().encode(reached)
        case ShareMessages.Finish.type: try ValueSetEncoder().encode(await finish())
        default: throw AppServiceError(.invalidMessage, message: "'Type' must be offer, progress or finish")
        }
    }

    private static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        do {
            return try ValueSetDecoder().decode(call, from: message)
        } catch {
            throw AppServiceError(.invalidMessage, message: "the message is not a valid '\(Call.type)'")
        }
    }

    private func take(_ call: ShareMessages.Offer) async -> ShareMessages.Offer.Response {
        guard case .collecting(var collector) = phase else { return .init(problem: .invalid) }
        if caller.isStranger {
            guard let name = call.sender, DisplayText.isName(name) else { return fail(.invalid) }
            caller = AppServiceCaller(stranger: caller.endpoint, name: name)
        }
        let complete: ShareOffer?
        do throws(ShareOfferError) { complete = try collector.add(call.page) } catch {
            return fail(error == .tooLarge ? .tooLarge : .invalid)
        }
        guard let offer = complete else {
            phase = .collecting(collector)
            return .init()
        }
        phase = .deciding
        do throws(ShareFailure) { return try await begin(offer) } catch { return fail(error.problem) }
    }

    private func fail(_ problem: ShareMessages.Problem) -> ShareMessages.Offer.Response {
        phase = .failed(problem)
        return .init(problem: problem)
    }

    private func attempt(_ offer: ShareOffer) -> ShareAttempt { .init(sender: caller.endpoint, id: offer.id, content: offer.digest) }

    /// Asks about an offer, and prepares its transfer.
    private func begin(_ offer: ShareOffer) async throws(ShareFailure) -> ShareMessages.Offer.Response {
        let attempt = attempt(offer)
        let shown = SharingHandler.Offer(offer, from: caller)
        self.shown = shown
        if let result = receiver.result(attempt) {
            phase = .over(result, shown)
            return .init()
        }
        let folder: String
        if let known = receiver.acceptedFolder(attempt) {
            folder = known
        } else {
            switch await receiver.decide(handler, shown) {
            case .accept(let url)?: folder = url.path
            case .decline?: throw ShareFailure(.declined)
            case nil: throw ShareFailure(.unanswered)
            }
            receiver.accepted(attempt, into: folder)
        }
        try await receiver.enter(.init(attempt: attempt, offer: offer, replaced: replaced, ended: ended))
        // The connection before this one may have just brought everything.
        if let result = receiver.result(attempt) {
            phase = .over(result, shown)
            return .init()
        }
        guard !offer.entries.isEmpty else {
            phase = .running(offer, shown, nil, folder: folder)
            content.settle(nil)
            return .init()
        }
        // A stranger must not find out what is in the folder.
        let usesExisting = !caller.isStranger
        let sink = ShareSink(offer, from: "\(caller.systemID)", to: folder, room: receiver.room, usesExisting: usesExisting)
        self.sink = sink
        phase = .running(offer, shown, sink, folder: folder)
        guard let stream = await token.wait() else { throw ShareFailure(.invalid) }
        let have: [ShareMessages.Have]
        do throws(ShareFailure) {
            have = try await sink.prepare()
        } catch {
            await sink.close()
            throw error
        }
        accepted.settle(Accepted(offer: shown, sink: sink, stream: stream))
        return .init(token: stream.token.secret.exposed, have: have.isEmpty ? nil : have)
    }

    private var reached: ShareMessages.Progress.Response {
        guard case .running(_, _, let sink?, _) = phase else { return .init(bytes: 0, files: 0) }
        let progress = sink.progress.value
        return .init(bytes: progress.bytesSent, files: progress.filesSent)
    }

    private func finish() async -> ShareMessages.Finish.Response {
        // The last bytes may still be on their way.
        if case .running = phase {
            guard let problem = await content.wait() else { return .init(problem: .invalid) }
            if let problem { phase = .failed(problem) }
        }
        switch phase {
        case .collecting, .deciding: return .init(problem: .invalid)
        case .failed(let problem): return .init(problem: problem)
        case .over(let response, _): return response
        case .running(let offer, let shown, let sink, let folder):
            phase = .deciding
            do throws(ShareFailure) {
                let response = ShareMessages.Finish.Response(try await sink?.finish() ?? .init())
                let folder = URL(filePath: folder, directoryHint: .isDirectory)
                let received = SharingHandler.Received(
                    offer: shown,
                    urls: (response.names ?? []).filter { !$0.isEmpty }.map { folder.appending(path: $0) },
                    missing: (response.failed ?? []).map { offer.entries[Int($0.entry)].path.map(\.text).joined(separator: "/") }
                )
                do { try await handler.received(received) } catch { throw ShareFailure(.notWritable) }
                receiver.finished(attempt(offer), response)
                await sink?.close()
                phase = .over(response, shown)
                return response
            } catch {
                await sink?.close()
                phase = .failed(error.problem)
                return .init(problem: error.problem)
            }
        }
    }

    // MARK: Content

    /// Reads the bulk stream, once the offer is accepted.
    private func readContent() async {
        guard let accepted = await accepted.wait() else { return }
        let progress = accepted.sink.progress
        await withTaskGroup(of: Void.self) { [handler] group in
            group.addTask { await handler.progress(accepted.offer, AsyncValues(progress) { $0 }) }
            let problem = await Self.read(accepted)
            progress.finish()
            content.settle(problem)
            await group.waitForAll()
        }
    }

    /// - Returns: Why not everything arrived.
    private static func read(_ accepted: Accepted) async -> ShareMessages.Problem? {
        guard let stream = await within(senderPatience, { await accepted.stream.stream() }) else { return .busy }
        do {
            let isComplete = try await stream.use { inbound, _ in try await accepted.sink.receive(inbound) }
            return isComplete ? nil : .busy
        } catch let error as ShareFailure {
            return error.problem
        } catch is BulkError {
            return .invalid
        } catch {
            return .busy
        }
    }
}

extension ShareMessages.Finish.Response {
    fileprivate init(_ outcome: ShareSink.Outcome) {
        let failed = outcome.failures.map { ShareMessages.Failed(entry: UInt32($0.entry), problem: $0.problem) }
        self.init(names: outcome.names.map { $0?.text ?? "" }, failed: failed.isEmpty ? nil : failed)
    }
}

extension ShareOffer {
    /// Whether both have a top entry of the same name.
    fileprivate func overlaps(_ other: ShareOffer) -> Bool {
        let names = Set(tops.map(\.path))
        return other.tops.contains { names.contains($0.path) }
    }
}
