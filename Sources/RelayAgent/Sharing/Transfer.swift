// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// What a client of the API sends to another device.
final class Transfer: Sendable {
    private struct State: Sendable {
        var progress = NearShareProgress?.none
        var isCancelled = false
        var end: Swift.Result<NearShareReport, AgentError>?
    }

    let id: String
    /// Who sends it.
    let principal: String
    let system: RemoteSystem
    private let app: RemoteSystemApp
    private let local: LocalDevice
    let parts: [TransferPart]
    private let operation: NearShareOperation
    private let late: OneShot<Void>
    private let state = CurrentValue(State())

    /// Begins to send.
    /// - Parameters:
    ///   - notes: Links and texts.
    ///   - modified: When the files were changed, in milliseconds since 1970.
    init(
        _ parts: [TransferPart],
        _ notes: [NearShareItem],
        modified: Int64,
        to receiver: (system: RemoteSystem, app: RemoteSystemApp),
        of principal: String,
        on local: LocalDevice
    ) {
        let late = OneShot<Void>()
        let files = parts.map { part in
            let stream = ShareStream { take in
                do {
                    try await part.read(take)
                } catch is TransferPart.Late {
                    late.settle(())
                    throw TransferPart.Late()
                }
            }
            return NearShareItem.stream(stream, name: part.name, size: part.size, modified: modified)
        }
        id = UUID().uuidString.lowercased()
        (self.parts, self.principal, self.late) = (parts, principal, late)
        (system, app, self.local) = (receiver.system, receiver.app, local)
        operation = NearShareSender(local.platform).send(files + notes, to: RemoteSystemConnectionRequest(receiver.app))
    }

    var hasEnded: Bool { state.value.end != nil }

    func cancel() {
        state.update { $0.isCancelled = true }
        operation.cancel()
    }

    /// Ends one that nobody follows.
    func end() {
        operation.cancel()
        for part in parts { part.end() }
    }

    /// Waits for the end, for a moment.
    func waitForEnd() async { _ = await state.first(within: .seconds(10)) { $0.end != nil } }

    /// Follows it until it ends. Cancelling the task cancels it.
    /// - Parameter changed: Called at each change of its state.
    func follow(_ changed: (Transfer) -> Void) async {
        let operation = operation
        await withTaskCancellationHandler {
            // A client that sends nothing keeps nobody waiting.
            async let _: Void = { if await late.wait() != nil { operation.cancel() } }()
            changed(self)
            var phase = NearShareProgress.Phase.waiting
            for await progress in operation.progress {
                state.update { $0.progress = progress }
                guard progress.phase != phase else { continue }
                phase = progress.phase
                changed(self)
            }
            let end: Swift.Result<NearShareReport, AgentError>
            do throws(NearShareError) {
                end = .success(try await operation.result())
            } catch {
                let name = DisplayText.sanitized(system.displayName)
                end = .failure(local.failure(error, sendingTo: app, called: name, hasBegun: phase != .waiting))
            }
            state.update { $0.end = end }
            for part in parts { part.end() }
            changed(self)
        } onCancel: {
            operation.cancel()
        }
    }

    // MARK: What clients see

    struct Result: Encodable, Sendable {
        struct Entry: Encodable, Sendable {
            var name: String
            var size: Int64
            /// The bytes that have come from the client.
            var received: Int64
        }

        var id: String
        /// `waiting`, `sending`, `interrupted`, `succeeded`, `incomplete`, `declined`, `cancelled`, `failed`.
        var state: String
        var device: String
        var deviceName: String
        var app: String
        var entries: [Entry]
        /// Of all entries.
        var bytes: Int64
        /// Those that the device has confirmed.
        var sent: Int64
        /// The names that the files have there.
        var names: [String]?
        var leftOut: [Send.Result.Omission]?
        /// The failure.
        var code: String?
        var message: String?
    }

    var result: Result {
        let state = state.value
        var result = Result(
            id: id,
            state: (state.progress?.phase ?? .waiting).rawValue,
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(app.appID),
            entries: parts.map { .init(name: $0.name.text, size: $0.size, received: $0.received) },
            bytes: parts.reduce(0) { $0 + $1.size },
            sent: state.progress?.bytesSent ?? 0
        )
        switch state.end {
        case nil: break
        case .success(let report):
            (result.state, result.names) = (report.leftOut.isEmpty ? "succeeded" : "incomplete", report.names)
            if !report.leftOut.isEmpty { result.leftOut = report.leftOut.map(Send.Result.Omission.init) }
        case .failure where late.value != nil:
            result.state = "failed"
            (result.code, result.message) = ("timedOut", "the content of an entry did not come in time")
        case .failure(let failure):
            result.state = state.isCancelled ? "cancelled" : failure.status == .declined ? "declined" : "failed"
            (result.code, result.message) = (failure.code, failure.message)
        }
        return result
    }
}
