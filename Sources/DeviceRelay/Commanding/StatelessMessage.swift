// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import RelayTracing

extension ConnectedDevicesPlatform {
    /// Sends one message to an app service and returns its response: the original's `sendStatelessMessageAsync`. Unlike a
    /// request on a connection, the message is stored for a sleeping device, and reaches the service at most once.
    /// - Parameters:
    ///   - message: At most about 256 KiB encoded; the response has the same limit.
    ///   - service: The service, and the app that offers it.
    ///   - request: The device or app that offers the service.
    ///   - appID: The calling app, as the service sees it; `nil` for this platform's app, if it has exactly one.
    ///   - timeToLive: How long the relay stores the message for a device that is not connected: 24 h by default, 28 days at most.
    ///   - timeout: The time limit of the wait for the response; default 30 s. Cancelling the task also ends the wait. In both cases the message
    ///     proceeds.
    /// - Throws: `AppServiceError`; `timedOut` if there is no response in time.
    public func sendStatelessMessage(
        _ message: ValueSet,
        to service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeToLive: Duration = .seconds(24 * 3_600),
        timeout: Duration = .seconds(30)
    ) async throws(AppServiceError) -> ValueSet {
        try await Trace.span("send message", .producer) { () async throws(AppServiceError) in
            let end = ContinuousClock.now + timeout
            let command = try await submitStatelessMessage(
                message,
                to: service,
                on: request,
                from: appID,
                timeToLive: timeToLive,
                timeout: timeout
            )
            guard await command.state.first(within: ContinuousClock.now.duration(to: end), where: \.isEnded) != nil else {
                throw AppServiceError(Task.isCancelled ? .taskCancelled : .pending)
            }
            return try await command.answer()
        }
    }

    /// Stores a message, which then proceeds independently, and returns at once.
    /// - Parameter key: Makes a repeat with the same request the same message.
    package func submitStatelessMessage(
        _ message: ValueSet,
        to service: AppServiceInfo,
        on request: RemoteSystemConnectionRequest,
        from appID: String? = nil,
        timeToLive: Duration,
        timeout: Duration,
        key: SubmissionKey? = nil
    ) async throws(AppServiceError) -> RemoteCommand {
        do throws(CommandFailure) {
            if let earlier = try await submitted(key, on: request) { return earlier }
            let (provider, target) = try await resolve(request, within: timeout) { (directory) throws(TargetError) in
                try directory.resolve(service, on: request)
            }
            let body = CommandBody.message(service: service.name, message)
            return try await provider.submit(body, to: target, life: timeToLive, senderApp: appID, key: key)
        } catch {
            throw AppServiceError(error)
        }
    }
}

extension RemoteCommand {
    /// Waits for the service's response to a message.
    package func answer() async throws(AppServiceError) -> ValueSet {
        do throws(CommandFailure) {
            let final = try await final()
            do {
                return try await provider?.reply(to: id, final) ?? ValueSet()
            } catch {
                throw CommandFailure.content(error)
            }
        } catch {
            throw AppServiceError(error)
        }
    }
}

extension AppServiceError {
    init(_ failure: CommandFailure) {
        switch failure {
        case .invalidURI(let error): self.init(.invalidMessage, message: error.description, cause: error)
        case .target(let error): self.init(Self.code(error), message: error.description, cause: error)
        case .noAccount: self.init(.authenticationError, message: "the platform has no such account, or was not started")
        case .noDirectory(let state):
            self.init(.networkNotAvailable, message: "the relay has not sent the list of devices; \(state)", cause: state.problem)
        case .content(let error as LimitExceeded): self.init(.messageTooLarge, message: error.description, cause: error)
        case .content(let error): self.init(.invalidMessage, cause: error)
        case .tooManyCommands(let exceeded):
            self.init(.resourceLimitsExceeded, message: "too many commands have not ended yet: \(exceeded)", cause: exceeded)
        case .keyReused: self.init(.submissionKeyReused)
        case .tooManyKeys(let limit): self.init(.resourceLimitsExceeded, message: CommandFailure.keysMessage(limit))
        case .storage(let error):
            self.init(.failure, message: "the message cannot be stored, so it was not sent; check the storage directory", cause: error)
        case .refused(let rejection): self.init(rejection)
        case .withdrawn, .outcome(.cancelled): self.init(.cancelled)
        case .pending: self.init(.timedOut, message: "there is no answer yet; the message continues by itself")
        case .taskCancelled: self.init(.cancelled, message: "the wait was cancelled; the message continues by itself")
        case .shutDown: self.init(.cancelled, message: "the platform was shut down; the message continues when it is started again")
        case .outcome(.succeeded): self.init(.unknown)
        case .outcome(.declined(let reason)):
            self.init(.notAuthorized, message: reason.isEmpty ? nil : DisplayText.sanitized(reason))
        case .outcome(.unsupported): self.init(.appServiceUnavailable)
        case .outcome(.failed(let reason)): self.init(.failure, message: DisplayText.sanitized(reason))
        case .outcome(.expired):
            self.init(.remoteSystemUnavailable, message: "the device did not connect in time; the message was not handled and will not be")
        case .outcome(.indeterminate):
            self.init(.unknown, message: "the message may have been handled, which cannot be determined; it is not sent again")
        }
    }

    private init(_ rejection: CommandRejection) {
        switch rejection.reason {
        case .targetUnknown: self.init(.remoteSystemUnavailable, message: "the device is not in the account any more")
        case .limit(let exceeded) where exceeded.limit == .commandBytes:
            self.init(.messageTooLarge, message: exceeded.description, cause: exceeded)
        case .limit(let exceeded): self.init(.resourceLimitsExceeded, message: "the device's mailbox is full: \(exceeded)", cause: exceeded)
        default: self.init(.webServiceUnavailable, message: "the relay did not accept it (\(DisplayText.sanitized(rejection.code)))")
        }
    }

    private static func code(_ error: TargetError) -> Code {
        switch error {
        case .remoteSystemUnavailable: .remoteSystemUnavailable
        case .appUnavailable: .appUnavailable
        case .appNotInstalled: .appNotInstalled
        case .appServiceUnavailable, .protocolUnavailable, .ambiguous: .appServiceUnavailable
        case .notConfirmed: .notAuthorized
        }
    }
}
