// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Subprocess

/// An app service that a program answers: messages as JSON on its standard input, answers as JSON on its standard output.
struct ProgramService: Sendable {
    /// Of one message as JSON, in either direction.
    static let maximumBytes = 16 << 20
    static let maximumLogLines = 20

    let name: String
    let configuration: AgentConfiguration.ServiceConfiguration
    let environment: ProgramEnvironment
    let running: RunningPrograms
    let log: @Sendable (String) -> Void

    var service: Service {
        Service(name) { connection, caller in
            if let devices = configuration.devices, !devices.contains(caller.systemID) {
                throw AppServiceError(.notAuthorized, message: "the service is not open to this device")
            }
            switch configuration.mode {
            case .once: try await connection.respond { try await answer($0, caller) }
            case .lines: try await converse(on: connection, caller)
            }
        }
    }

    private func program(_ caller: AppServiceCaller, _ mark: ProgramMark) -> Subprocess.Configuration {
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

    // MARK: One program for each message

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
                            // A program need not read what it does not want to know.
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

    // MARK: One program for each connection

    /// A line in for each message, and a line out for each answer, in the same order.
    private func converse(on connection: AppServiceConnection, _ caller: AppServiceCaller) async throws {
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
                            // It has ended, or has nothing more to do.
                            await execution.teardown(using: [
                                .send(signal: Signal(rawValue: 0), toProcessGroup: true, allowedDurationToNextStep: .seconds(2)),
                                .gracefulShutDown(toProcessGroup: true, allowedDurationToNextStep: .seconds(2)),
                            ])
                            // What it started ends with the connection, too.
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

    /// - Returns: The request that the program has ended instead of answering, if it has.
    private func answer(
        _ connection: AppServiceConnection,
        with execution: Execution<CustomWriteInput, SequenceOutput, SequenceOutput>
    ) async throws -> AppServiceRequest? {
        let output = LineBox(OutputReader(execution.standardOutput))
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
                request.refuse(Self.told(error))
                throw error
            }
        }
        return nil
    }

    /// An output that one task after the other reads.
    private actor LineBox {
        private var reader: OutputReader

        init(_ reader: sending OutputReader) { self.reader = reader }

        func next(limit: Int) async throws -> [UInt8]? {
            var reader = self.reader
            defer { self.reader = reader }
            return try await reader.line(limit: limit)
        }
    }

    // MARK: What goes wrong

    private static func message(_ json: [UInt8]) throws -> ValueSet {
        do throws(ValueSetError) {
            return try ValueSet(json: json)
        } catch {
            throw AppServiceError(.failure, message: "the service's program did not answer with a JSON object: \(error)")
        }
    }

    /// What a program says on its standard error is for whoever looks after this machine.
    private func tell(_ output: SubprocessOutputSequence) async throws {
        var reader = OutputReader(output)
        var count = 0
        while true {
            do {
                guard let line = try await reader.line(limit: 4 << 10) else { return }
                count += 1
                if count <= Self.maximumLogLines { log("\(name): \(DisplayText.sanitized(String(decoding: line, as: UTF8.self)))") }
                if count == Self.maximumLogLines { log("\(name): (more is left out)") }
            } catch ProgramFailure.tooMuchOutput {
                // Whatever it is, it is no line. It is read, so that the program goes on, and forgotten.
                reader.drop()
            }
        }
    }

    private func starting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as SubprocessError where error.code == .executableNotFound || error.code == .spawnFailed {
            throw ProgramFailure.cannotStart(configuration.command.trouble(error))
        }
    }

    /// What the caller is told.
    private static func told(_ error: any Error) -> AppServiceError {
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
            let told = Self.told(error)
            // Where programs are is nobody's business elsewhere.
            if case ProgramFailure.cannotStart(let what) = error {
                log("\(name): \(what)")
            } else if told.code != .cancelled {
                log("\(name): \(told.message)")
            }
            throw told
        }
    }
}

extension ProgramFailure {
    /// What the caller is told.
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
    /// Without a fraction that says nothing.
    fileprivate var inSeconds: String {
        let seconds = self / .seconds(1)
        return seconds == seconds.rounded() ? "\(Int(seconds)) s" : "\(seconds) s"
    }
}
