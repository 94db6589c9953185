// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

extension AgentClient {
    private typealias Exchange = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    /// Sends a request, and passes on the parts of its answer as they come. Who takes them slowly slows the agent down.
    /// - Throws: What the closure throws; `AppServiceError` for an answer without its end.
    func stream(
        _ call: APIRequest,
        _ headers: HTTPHeaders,
        _ take: (HTTPClientResponsePart) async throws -> Void
    ) async throws {
        let exchange: Exchange
        do {
            exchange = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(unixDomainSocketPath: address.socket) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHTTPClientHandlers()
                        return try Exchange(wrappingChannelSynchronously: channel)
                    }
                }
        } catch {
            try Task.checkCancellation()
            throw AgentError.agentLost(call.method)
        }
        var (own, hasEnded) = ((any Error)?.none, false)
        do {
            try await exchange.executeThenClose { inbound, outbound in
                var headers = headers
                headers.replaceOrAdd(name: "Host", value: "relay")
                headers.replaceOrAdd(name: "Connection", value: "close, TE")
                let head = HTTPRequestHead(
                    version: .http1_1,
                    method: HTTPMethod(rawValue: call.method.rawValue),
                    uri: call.target,
                    headers: headers
                )
                try await outbound.write(.head(head))
                try await outbound.write(.end(nil))
                for try await part in inbound {
                    do { try await take(part) } catch {
                        own = error
                        throw error
                    }
                    if case .end = part {
                        hasEnded = true
                        return
                    }
                }
            }
        } catch {
            if let own { throw own }
            try Task.checkCancellation()
        }
        guard !hasEnded else { return }
        try Task.checkCancellation()
        throw AgentFiles.brokenOff
    }

    /// The failure that an answer says.
    static func problem(_ status: Int, _ body: [UInt8]) -> any Error {
        guard let problem = try? JSONText.decoder.decode(APIProblem.self, from: .init(body)) else {
            return AgentError("agentFailed", "the agent of this device answered with status \(status)", .failed)
        }
        return problem.retryAfter == nil ? problem.failure : Interruption(failure: problem.failure)
    }
}

extension AgentError {
    static func agentLost(_ method: APIRequest.Method) -> AgentError {
        AgentError(
            "agentLost",
            method == .get
                ? "the agent of this device ended" : "the agent of this device ended; the command may have run: see `relay commands`",
            .failed
        )
    }
}
