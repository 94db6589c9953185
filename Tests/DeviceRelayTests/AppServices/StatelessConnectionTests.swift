// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

@Suite(.timeLimit(.minutes(10))) struct StatelessConnectionTests {
    static let caller = AppServiceCaller(
        accountID: "me",
        deviceName: "phone",
        systemID: RemoteSystem.ID(SystemID(P256SigningKey.sampleRelay.publicKey)),
        endpoint: EndpointID(P256SigningKey.sampleRelay.publicKey),
        appID: "com.example.remote",
        isNew: false
    )

    struct Plain: Error {}

    /// What a service makes of one message: all that was answered by the time it returned, in short.
    static func answers(
        to message: ValueSet = ["Type": "ping"],
        responseBytes: Int = 1_024,
        by handler: @escaping @Sendable (AppServiceConnection) async throws -> Void
    ) async -> [String] {
        let answers = Shared<[String]>([])
        let connection = AppServiceConnection(
            info: AppServiceInfo(name: "test", appID: "com.example.app"),
            stateless: message,
            responseBytes: responseBytes
        ) { answer in
            answers.withLock { answers in
                switch answer {
                case .response(let response): answers.append("response \(response["Text"]?.string ?? "")")
                case .refused(let error): answers.append("refused \(error.code)")
                case .failed(let error): answers.append("failed \(error.code)")
                }
            }
        }
        await AppService("test") { connection, _ in try await handler(connection) }.serve(connection, caller)
        return answers.value
    }

    @Test func requestIsAnswered() async {
        let answers = await Self.answers { connection in
            try await connection.respond { request in ["Text": request.message["Type"] ?? ""] }
        }
        #expect(answers == ["response ping"])
    }

    @Test func connectionClosesAfterOneRequest() async {
        let count = Shared(0)
        let answers = await Self.answers { connection in
            for await request in connection.requests {
                count.withLock { $0 += 1 }
                try await request.respond(["Text": "pong"])
            }
            #expect(try await connection.closed.status == .completed)
        }
        #expect(answers == ["response pong"])
        #expect(count.value == 1)
    }

    @Test func aDroppedRequestFails() async {
        let answers = await Self.answers { connection in
            for await request in connection.requests { _ = request.message }
        }
        #expect(answers == ["failed failure"])
    }

    @Test func requestFailsWhenTheHandlerReturnsWithoutReading() async {
        #expect(await Self.answers { _ in } == ["failed failure"])
        #expect(await Self.answers { $0.close() } == ["failed failure"])
    }

    @Test func connectionIsRefusedByTheService() async {
        #expect(await Self.answers { _ in throw AppServiceError(.notAuthorized) } == ["refused notAuthorized"])
        #expect(await Self.answers { _ in throw Plain() } == ["failed failure"])
    }

    @Test func requestIsRefusedByTheService() async {
        let manually = await Self.answers { connection in
            for await request in connection.requests { request.refuse(AppServiceError(.resourceLimitsExceeded)) }
        }
        #expect(manually == ["refused resourceLimitsExceeded"])
        let thrown = await Self.answers { connection in
            try await connection.respond { _ in throw AppServiceError(.notAuthorized) }
        }
        #expect(thrown == ["refused notAuthorized"])
        #expect(await Self.answers { try await $0.respond { _ in throw Plain() } } == ["failed failure"])
    }

    @Test func requestHasOneAnswer() async {
        let answers = await Self.answers { connection in
            for await request in connection.requests {
                try await request.respond(["Text": "first"])
                await #expect(throws: AppServiceError.self) { try await request.respond(["Text": "second"]) }
                request.refuse(AppServiceError(.failure))
            }
            throw Plain()
        }
        #expect(answers == ["response first"])
    }

    @Test func answerAfterTheEndFails() async throws {
        let kept = Shared<AppServiceRequest?>(nil)
        let answers = await Self.answers { connection in
            for await request in connection.requests {
                kept.withLock { $0 = request }
                return
            }
        }
        #expect(answers == ["failed failure"])
        let request = try #require(kept.value)
        let error = await #expect(throws: AppServiceError.self) { try await request.respond([:]) }
        #expect(error?.code == .appServiceConnectionClosed)
    }

    @Test func tooLargeAnswerAllowsAnotherAnswer() async {
        let answers = await Self.answers(responseBytes: 32) { connection in
            for await request in connection.requests {
                let error = await #expect(throws: AppServiceError.self) {
                    try await request.respond(["Text": .string(String(repeating: "x", count: 32))])
                }
                #expect(error?.code == .messageTooLarge)
                try await request.respond(["Text": "short"])
            }
        }
        #expect(answers == ["response short"])
        let responded = await Self.answers(responseBytes: 32) { connection in
            try await connection.respond { _ in ["Text": .string(String(repeating: "x", count: 32))] }
        }
        #expect(responded == ["refused messageTooLarge"])
    }

    @Test func serviceCannotSendRequests() async {
        let answers = await Self.answers { connection in
            let error = await #expect(throws: AppServiceError.self) { try await connection.send([:]) }
            #expect(error?.code == .notSupported)
            throw AppServiceError(.notAuthorized)
        }
        #expect(answers == ["refused notAuthorized"])
    }

    @Test func cancelledServiceFailsTheRequest() async {
        let answers = Shared<[String]>([])
        let hasBegun = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            let made = await Self.answers { connection in
                let request = await connection.requests.first { _ in true }
                hasBegun.continuation.yield()
                // There is no second one, and the first has no answer.
                #expect(await connection.requests.first { _ in true } == nil)
                await #expect(throws: AppServiceError.self) { try await connection.closed }
                await #expect(throws: AppServiceError.self) { try await connection.respond { _ in [:] } }
                withExtendedLifetime(request) {}
                try Task.checkCancellation()
            }
            answers.withLock { $0 = made }
        }
        for await _ in hasBegun.stream { break }
        task.cancel()
        await task.value
        #expect(answers.value == ["failed failure"])
    }
}
