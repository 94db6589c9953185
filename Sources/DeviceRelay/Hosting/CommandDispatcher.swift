// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Runs the app's handler for a command.
enum CommandDispatcher {
    /// - Parameter replyBytes: The limit for a sealed reply.
    @concurrent static func run(
        _ body: CommandBody,
        _ app: RemoteSystemAppRegistration,
        _ caller: AppServiceCaller,
        _ cancellation: RequestCancellation,
        replyBytes: Int,
        _ extend: @escaping @Sendable () async -> Void
    ) async -> (CommandOutcome, ValueSet?) {
        switch body {
        case .launch(let launch):
            // The declared schemes may have changed since the launch arrived.
            guard let launching = app.launchHandler, launching.schemes.contains(launch.uri.scheme) else { return (.unsupported, nil) }
            let request = LaunchRequest(
                uri: launch.uri,
                fallbackURI: launch.fallbackURI,
                preferredAppIDs: launch.preferredAppIDs ?? [],
                caller: caller,
                cancellation: cancellation,
                extend: extend
            )
            do {
                return (CommandOutcome(try await launching.handler(request)), nil)
            } catch {
                return (.failed(reason: "the app's handler failed"), nil)
            }
        case .message(let name, let message):
            guard let service = app.services.first(where: { $0.name == name }) else { return (.unsupported, nil) }
            let answer = Mutex(StatelessAnswer.failed(AppServiceError(.failure)))
            let connection = AppServiceConnection(
                info: AppServiceInfo(name: name, appID: app.appID),
                stateless: message,
                responseBytes: max(0, replyBytes - SealedReply.overhead)
            ) { value in
                answer.withLock { $0 = value }
            }
            await service.serve(connection, caller)
            switch answer.withLock({ $0 }) {
            case .response(let message): return (.succeeded, message)
            case .refused(let error) where error.code == .notAuthorized: return (.declined, nil)
            case .refused(let error), .failed(let error): return (.failed(reason: CommandReceipt.reason(error.message)), nil)
            }
        }
    }
}

extension CommandOutcome {
    fileprivate init(_ result: LaunchHandler.Result) {
        switch result {
        case .launched: self = .succeeded
        case .unsupported: self = .unsupported
        case .declined(let reason): self = .declined(reason: CommandReceipt.reason(reason))
        case .failed(let reason): self = .failed(reason: CommandReceipt.reason(reason))
        }
    }
}

extension CommandReceipt {
    /// A reason as a receipt takes it: cut to its limit, and without U+0000. An app may repeat texts of its callers.
    fileprivate static func reason(_ text: String) -> String {
        var reason = text.utf8.contains(0) ? String(decoding: text.utf8.filter { $0 != 0 }, as: UTF8.self) : text
        if reason.utf8.count > 4 * maximumReasonBytes { reason = String(reason.prefix(maximumReasonBytes)) }
        while reason.utf8.count > maximumReasonBytes { reason.removeLast() }
        return reason
    }
}
