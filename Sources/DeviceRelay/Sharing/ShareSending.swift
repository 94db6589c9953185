// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Whom a transfer goes to.
protocol ShareTarget: Sendable {
    /// What this device calls itself there; `nil` if the other one knows it.
    var ownName: String? { get async }

    /// Opens a connection to the service of the app that receives.
    func connect() async throws(AppServiceError) -> BulkConnection
}

/// A device that is known.
struct KnownShareTarget: ShareTarget {
    let request: RemoteSystemConnectionRequest
    let platform: ConnectedDevicesPlatform

    var ownName: String? { nil }

    func connect() async throws(AppServiceError) -> BulkConnection {
        try await BulkConnection(to: request, on: platform) { (directory) throws(TargetError) in
            try directory.resolve(serviceNamed: ShareMessages.serviceName, on: request)
        }
    }
}

/// One transfer to another device, over as many connections as it takes.
final class ShareSending: Sendable {
    /// The time limit of an answer that needs a person. A lost connection ends the wait earlier.
    private static let offerPatience = Duration.seconds(300)
    /// The time between two questions for the progress.
    private static let interval = Duration.milliseconds(500)

    private let items: [NearShareItem]
    private let target: any ShareTarget
    private let patience: Duration
    let progress = CurrentValue(NearShareProgress(bytesSent: 0, totalBytesToSend: 0, filesSent: 0, totalFilesToSend: 0))

    init(_ items: [NearShareItem], to target: any ShareTarget, patience: Duration) {
        (self.items, self.target, self.patience) = (items, target, patience)
    }

    /// What one attempt has reached.
    private struct Reached {
        private(set) var accepted = false
        /// The bytes of files that the other device had at its start.
        var before: Int64?
        /// The most bytes that it has confirmed, and when it did.
        var bytes: Int64 = 0
        var time = ContinuousClock.now

        mutating func accept() {
            // The time that a person took for the answer does not count.
            if !accepted { (accepted, time) = (true, .now) }
        }

        mutating func confirmed(_ bytes: Int64) {
            guard bytes > self.bytes else { return }
            (self.bytes, time) = (bytes, .now)
        }

        func isStuck(_ patience: Duration) -> Bool { time.duration(to: .now) >= patience }
    }

    func run() async throws(NearShareError) -> NearShareReport {
        let collection = try await ShareReader().collect(items)
        let offered = collection.entries.map(\.offered)
        progress.update {
            $0.totalBytesToSend = offered.reduce(0) { $0 + ($1.size ?? 0) }
            $0.totalFilesToSend = offered.count { $0.size != nil }
        }
        var random = SystemRandomNumberGenerator()
        let pages: [ShareOffer.Page]
        do throws(ShareOfferError) {
            pages = try ShareOffer.pages(id: randomBytes(ShareLimits.idBytes, using: &random), entries: offered, notes: collection.notes)
        } catch {
            throw NearShareError(.tooLarge)
        }
        var (reached, pause) = (Reached(), Duration.seconds(1))
        while true {
            let before = reached.bytes
            do throws(NearShareError) {
                return try await attempt(collection, pages, &reached)
            } catch {
                guard !Task.isCancelled else { throw NearShareError(.cancelled, "the transfer was cancelled") }
                guard reached.accepted, error.isInterruption, !reached.isStuck(patience), collection.canRepeat else { throw error }
            }
            progress.update { $0.phase = .interrupted }
            // An attempt that got further is followed by another one soon.
            pause = reached.bytes > before ? .seconds(1) : min(pause * 2, .seconds(15))
            guard (try? await Task.sleep(for: pause)) != nil else { throw NearShareError(.cancelled, "the transfer was cancelled") }
        }
    }

    private func attempt(
        _ collection: ShareCollection,
        _ pages: [ShareOffer.Page],
        _ reached: inout Reached
    ) async throws(NearShareError) -> NearShareReport {
        do {
            let service: BulkConnection
            do throws(AppServiceError) {
                service = try await target.connect()
            } catch {
                throw NearShareError(connecting: error)
            }
            do {
                let report = try await transfer(collection, pages, over: service, &reached)
                await service.close()
                return report
            } catch {
                await service.close()
                throw error
            }
        } catch let error as NearShareError {
            throw error
        } catch let error as AppServiceError {
            throw NearShareError(error)
        } catch {
            throw NearShareError(.remoteSystemUnavailable, "the connection to the device broke off", cause: error)
        }
    }

    private func transfer(
        _ collection: ShareCollection,
        _ pages: [ShareOffer.Page],
        over service: BulkConnection,
        _ reached: inout Reached
    ) async throws -> NearShareReport {
        let connection = service.connection
        let name = await target.ownName
        var answer = ShareMessages.Offer.Response()
        for page in pages {
            answer = try await connection.call(ShareMessages.Offer(page: page, sender: name), timeout: Self.offerPatience)
            if let problem = answer.problem { throw NearShareError(problem) }
        }
        reached.accept()
        let have = Self.possible(answer.have ?? [], of: collection)
        let there = have.values.reduce(Int64(0)) { $0 + $1.length }
        reached.before = reached.before ?? there
        reached.confirmed(there)
        progress.update { ($0.phase, $0.bytesSent) = (.sending, max($0.bytesSent, min(there, $0.totalBytesToSend))) }
        guard let token = answer.token else { return try await finish(connection, collection, reached) }
        let stream = try await service.openStream(token)
        let source = ShareSource(collection, have: have)
        do {
            return try await send(source, over: stream, connection, collection, &reached)
        } catch {
            // The other device may have closed the stream for a reason.
            let answer = Task.isCancelled ? nil : try? await connection.call(ShareMessages.Finish(), timeout: .seconds(10))
            if let problem = answer?.problem { throw NearShareError(problem) }
            throw error
        }
    }

    /// What the other device may have: at most the size of each file, once.
    private static func possible(_ have: [ShareMessages.Have], of collection: ShareCollection) -> [Int: ShareMessages.Have] {
        have.reduce(into: [:]) { all, have in
            let entry = Int(have.entry)
            guard collection.entries.indices.contains(entry), let size = collection.entries[entry].offered.size, have.length > 0,
                have.length <= size
            else { return }
            all[entry] = have
        }
    }

    /// Sends the content, and reports what the other device confirms meanwhile.
    private func send(
        _ source: ShareSource,
        over stream: BulkStream,
        _ connection: AppServiceConnection,
        _ collection: ShareCollection,
        _ reached: inout Reached
    ) async throws -> NearShareReport {
        try await stream.use { _, outbound in
            try await withThrowingTaskGroup(of: Int64?.self) { group in
                group.addTask {
                    try await source.send(over: outbound)
                    var end = ByteBuffer()
                    BulkFrame.complete.write(to: &end)
                    try await outbound.write(end)
                    return nil
                }
                let ask: @Sendable @concurrent () async throws -> Int64? = {
                    try await Task.sleep(for: Self.interval)
                    return try await connection.call(ShareMessages.Progress()).bytes
                }
                group.addTask(operation: ask)
                while let confirmed = try await group.next() {
                    guard let confirmed else { break }
                    reached.confirmed(confirmed)
                    show(confirmed)
                    guard !reached.isStuck(patience) else { throw NearShareError(.timedOut, "the other device takes nothing more") }
                    group.addTask(operation: ask)
                }
                group.cancelAll()
            }
            // The stream stays open until the other device has read it to its end.
            return try await finish(connection, collection, reached)
        }
    }

    private func show(_ confirmed: Int64) {
        progress.update { progress in
            progress.bytesSent = min(max(0, confirmed), progress.totalBytesToSend)
        }
    }

    private func finish(_ connection: AppServiceConnection, _ collection: ShareCollection, _ reached: Reached) async throws
        -> NearShareReport
    {
        let answer = try await connection.call(ShareMessages.Finish(), timeout: patience)
        if let problem = answer.problem { throw NearShareError(problem) }
        let failed = Dictionary((answer.failed ?? []).map { (Int($0.entry), $0.problem) }, uniquingKeysWith: { first, _ in first })
        let left = collection.entries.enumerated().compactMap { entry, sent -> NearShareReport.LeftOut? in
            guard let problem = failed[entry] else { return nil }
            return .init(path: sent.offered.path.joined(separator: "/"), reason: .init(problem))
        }
        // With a top folder, all that is in it.
        let missingTops = Set(
            collection.entries.indices.filter { failed[$0] != nil }.map { collection.entries[$0].offered.path }
                .filter { $0.count == 1 }
        )
        let missing = collection.entries.indices.count { entry in
            let offered = collection.entries[entry].offered
            return offered.size != nil && (failed[entry] != nil || missingTops.contains(Array(offered.path.prefix(1))))
        }
        let total = progress.value
        progress.update { ($0.bytesSent, $0.filesSent) = ($0.totalBytesToSend, $0.totalFilesToSend - missing) }
        return NearShareReport(
            names: (answer.names ?? []).filter { !$0.isEmpty }.map(DisplayText.sanitized),
            files: total.totalFilesToSend - missing,
            bytesSent: max(0, total.totalBytesToSend - (reached.before ?? 0)),
            leftOut: collection.leftOut + left
        )
    }
}

/// Reads the disk for the offer, on a thread of its own.
private actor ShareReader {
    private let executor = FileExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    func collect(_ items: [NearShareItem]) throws(NearShareError) -> ShareCollection { try ShareCollection(items) }
}

extension NearShareReport.LeftOut.Reason {
    fileprivate init(_ problem: ShareMessages.EntryProblem) {
        self =
            switch problem {
            case .abandoned: .notReadable
            case .damaged: .damaged
            case .nameNotPossible: .nameNotPossible
            case .notWritable: .notWritable
            }
    }
}
