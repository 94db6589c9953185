// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Subprocess

/// An app service that a program answers. Requests are JSON on its standard input, answers are JSON on its standard output.
struct ProgramService: Sendable {
    /// The size limit of one message as JSON, in both directions.
    static let maximumBytes = 16 << 20
    static let maximumLogLines = 20

    let name: String
    let configuration: AgentConfiguration.ServiceConfiguration
    let environment: ProgramEnvironment
    let running: RunningPrograms
    /// Takes a line of the program.
    let log: @Sendable (String) -> Void
    /// Takes a line of the agent, which is translated.
    let note: @Sendable (String) -> Void

    var service: AppService {
        AppService(name) { connection, caller in
            if let devices = configuration.devices, !devices.contains(caller.systemID) {
                throw AppServiceError(.notAuthorized, message: "the service is not open to this device")
            }
            switch configuration.mode {
            case .once: try await connection.respond { try await answer($0, caller) }
            case .lines: try await exchangeLines(on: connection, caller)
            }
        }
    }

    private func program(_ caller: AppServiceCaller, _ mark: ProgramRunID) -> Subprocess.Configuration {
        configuration.command.configuration(
            environment.variables(
                forDesktop: false,
                adding: [
                    "DEVICE_RELAY_SERVICE": name,
                    "DEVICE_RELAY_DEVICE": "\(caller.systemID)",
                    "DEVICE_RELAY_DEVICE_NAME": DisplayText.sanitized(caller.deviceName),
                    "DEVICE_RELAY_ENDPOINT": "\(caller.endpoint)",
                ],
                mark
            )
        )
    }

    // MARK: One program run for each message

    private func answer(_ request: AppServiceRequest, _ caller: AppServiceCaller) async throws -> ValueSet {
        let input = Array(try request.message.json().utf8) + [UInt8(ascii: "\n")]
        return try await reportingFailures {
            let output = try await within(configuration.timeout) { try await run(input, caller) }
            guard let output else {
                try Task.checkCancellation()
                throw ProgramFailure.timedOut(configuration.timeout)
            }
            return try Self.message(output)
        }
    }

    private func run(_ input: [UInt8], _ caller: AppServiceCaller) async throws -> [UInt8]? {
        try await running.run { mark in
            let result = try await starting {
                try await Subprocess.run(
                    program(caller, mark),
                    input: .inputWriter,
                    output: .sequence,
                    error: .sequence
                ) { execution in
                    try await withThrowingTaskGroup(of: [UInt8]?.self) { group in
                        group.addTask {
                            // A program may exit without reading its input.
                            _ = try? await execution.standardInputWriter.write(input)
                            try? await execution.standardInputWriter.finish()
                            return nil
                        }
                        group.addTask {
                            try await tell(execution.standardError)
                            return nil
                        }
                        group.addTask {
                            var reader = OutputReader(execution.standardOutput)
                            return try await reader.all(limit: Self.maximumBytes)
                        }
                        var output: [UInt8] = []
                        while let part = try await group.next() { output = part ?? output }
                        return output
                    }
                }
            }
            try Task.checkCancellation()
            guard result.terminationStatus.isSuccess else { throw ProgramFailure.ended(result.terminationStatus) }
            return result.closureResult
        }
    }

    // MARK: One program run for each connection

    /// Sends one line for each request and reads one line for each answer, in the same order.
    private func exchangeLines(on connection: AppServiceConnection, _ caller: AppServiceCaller) async throws {
        try await reportingFailures {
            try await running.run { mark in
                let (status, unanswered) = try await starting {
                    let result = try await Subprocess.run(
                        program(caller, mark),
                        input: .inputWriter,
                        output: .sequence,
                        error: .sequence
                    ) { execution in
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            group.addTask { try await tell(execution.standardError) }
                            let unanswered = try await answer(connection, with: execution)
                            try? await execution.standardInputWriter.finish()
                            // The program has ended, or its input is closed. It has 2 s to exit by itself.
                            await execution.teardown(using: [
                                .send(signal: Signal(rawValue: 0), toProcessGroup: true, allowedDurationToNextStep: .seconds(2)),
                                .gracefulShutDown(toProcessGroup: true, allowedDurationToNextStep: .seconds(2)),
                            ])
                            // Its child processes end with the connection, too.
                            await mark.endAll()
                            return unanswered
                        }
                    }
                    return (result.terminationStatus, result.closureResult)
                }
                guard let unanswered else { return }
                let failure = ProgramFailure.ended(status)
                unanswered.refuse(failure.error)
                throw failure
            }
        }
    }

    /// - Returns: The unanswered request, if the program ended before it answered.
    private func answer(
        _ connection: AppServiceConnection,
        with execution: Execution<CustomWriteInput, SequenceOutput, SequenceOutput>
    ) async throws -> AppServiceRequest? {
        let output = SharedOutputReader(OutputReader(execution.standardOutput))
        for await request in connection.requests {
            do {
                let input = Array(try request.message.json().utf8) + [UInt8(ascii: "\n")]
                let line: [UInt8]?? = try await within(configuration.timeout) {
                    _ = try? await execution.standardInputWriter.write(input)
                    return .some(try await output.next(limit: Self.maximumBytes))
                }
                try Task.checkCancellation()
                guard let line else { throw ProgramFailure.timedOut(configuration.timeout) }
                guard let line else { return request }
                let answer = try Self.message(line)
                try? await request.respond(answer)
            } catch {
                request.refuse(Self.appServiceError(error))
                throw error
            }
        }
        return nil
    }

    /// Shares an output between consecutive tasks.
    private actor SharedOutputReader {
        private var reader: OutputReader

        init(_ reader: sending OutputReader) { self.reader = reader }

        func next(limit: Int) async throws -> [UInt8]? {
            var reader = self.reader
            defer { self.reader = reader }
            return try await reader.line(limit: limit)
        }
    }

    // MARK: Errors

    private static func message(_ json: [UInt8]) throws -> ValueSet {
        do throws(ValueSetError) {
            return try ValueSet(json: json)
        } catch {
            throw AppServiceError(.failure, message: "the service's program did not answer with a JSON object: \(error)")
        }
    }

    /// Logs the program's standard error, for the owner of this machine.
    private func tell(_ output: SubprocessOutputSequence) async throws {
        var reader = OutputReader(output)
        var count = 0
        while true {
            do {
                guard let line = try await reader.line(limit: 4 << 10) else { return }
                count += 1
                if count <= Self.maximumLogLines { log("\(name): \(DisplayText.sanitized(String(decoding: line, as: UTF8.self)))") }
                if count == Self.maximumLogLines { note("\(name): (more is left out)") }
            } catch ProgramFailure.tooMuchOutput {
                // An overlong line is read, so that the program does not block, and dropped.
                reader.drop()
            }
        }
    }

    private func starting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as SubprocessError where error.code == .executableNotFound || error.code == .spawnFailed {
            throw ProgramFailure.cannotStart(configuration.command.describe(error))
        }
    }

    /// The error that the caller receives.
    private static func appServiceError(_ error: any Error) -> AppServiceError {
        switch error {
        case let error as AppServiceError: error
        case let failure as ProgramFailure: failure.error
        case is CancellationError: AppServiceError(.cancelled)
        default: AppServiceError(.failure, message: "the service's program failed")
        }
    }

    private func reportingFailures<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch {
            let reported = Self.appServiceError(error)
            // The path of the program stays on this machine.
            if case ProgramFailure.cannotStart(let what) = error {
                note("\(name): \(what)")
            } else if reported.code != .cancelled {
                note("\(name): \(reported.message)")
            }
            throw reported
        }
    }
}

extension ProgramFailure {
    /// The error that the caller receives.
    var error: AppServiceError {
        switch self {
        case .cannotStart: AppServiceError(.appUnavailable, message: "the service's program cannot be started")
        case .ended(let status): AppServiceError(.failure, message: "the service's program \(status.words)")
        case .tooMuchOutput:
            AppServiceError(
                .messageTooLarge,
                message: "the service's program answered with more than \(ProgramService.maximumBytes) bytes, and was ended"
            )
        case .tooManyPrograms:
            AppServiceError(
                .resourceLimitsExceeded,
                message: "\(RunningPrograms.most) programs run there at once; try again when one has ended"
            )
        case .timedOut(let limit):
            AppServiceError(.timedOut, message: "the service's program did not answer within \(limit.inSeconds), and was ended")
        }
    }
}

extension Duration {
    /// The duration in seconds, without a fraction of zero.
    fileprivate var inSeconds: String {
        let seconds = self / .seconds(1)
        return seconds == seconds.rounded() ? "\(Int(seconds)) s" : "\(seconds) s"
    }
}
