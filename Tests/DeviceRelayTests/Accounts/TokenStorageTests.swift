// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

extension StoredTokens {
    static let sample = StoredTokens(
        issuer: "https://relay.example/auth",
        clientID: "example.app",
        scopes: ["relay.command"],
        accessToken: Secret("access-canary-0"),
        accessTokenExpires: 0,
        refreshToken: Secret("refresh-canary-0")
    )
}

@Suite struct TokenStorageTests {
    @Test func tokensAreStoredAndDeleted() async throws {
        let directory = try TemporaryDirectory()
        let tokens = FileTokenStorage(directory: directory.path)
        #expect(try tokens.read() == nil)
        try await tokens.withExclusiveAccess { $0 = .sample }
        #expect(try FileTokenStorage(directory: directory.path).read() == .sample)
        try await tokens.withExclusiveAccess { $0 = nil }
        #expect(try tokens.read() == nil)
    }

    @Test func concurrentAccessRefreshesOnce() async throws {
        let directory = try TemporaryDirectory()
        try await FileTokenStorage(directory: directory.path).withExclusiveAccess { $0 = .sample }
        let refreshes = Shared(0)
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    // Each opens the file for itself, as processes do.
                    try await FileTokenStorage(directory: directory.path).withExclusiveAccess { tokens in
                        if tokens?.accessTokenExpires == 0 {
                            try await Task.sleep(for: .milliseconds(30))
                            refreshes.withLock { $0 += 1 }
                            tokens?.accessToken = Secret("access-canary-1")
                            tokens?.accessTokenExpires = 1
                        }
                        return tokens?.accessToken.exposed
                    }
                }
            }
            for try await token in group { #expect(token == "access-canary-1") }
        }
        #expect(refreshes.withLock { $0 } == 1)
    }

    @Test func accessWaitsForTheLockOfAnotherProcess() async throws {
        let directory = try TemporaryDirectory()
        let tokens = FileTokenStorage(directory: directory.path)
        try await tokens.withExclusiveAccess { $0 = .sample }
        let next = try TemporaryDirectory()
        var successor = StoredTokens.sample
        successor.refreshToken = Secret("refresh-canary-1")
        let stored = successor
        try await FileTokenStorage(directory: next.path).withExclusiveAccess { $0 = stored }

        let other = Process()
        other.executableURL = URL(fileURLWithPath: "/bin/sh")
        other.arguments = [
            "-c", "exec 9>>\"$1/tokens.lock\"; flock 9 && echo held && sleep 0.3 && mv \"$2/tokens\" \"$1/tokens\"", "sh", directory.path,
            next.path,
        ]
        let output = try ProcessStart.reading(other)
        _ = try output.read(upToCount: 4)
        let seen = try await tokens.withExclusiveAccess { $0?.refreshToken?.exposed }
        #expect(seen == "refresh-canary-1")
        try await ProcessRun.end(of: other)
    }

    @Test func failedAccessStoresNothingAndReleasesTheLock() async throws {
        let directory = try TemporaryDirectory()
        let tokens = FileTokenStorage(directory: directory.path)
        try await tokens.withExclusiveAccess { $0 = .sample }
        await #expect(throws: AccessTokenError.self) {
            try await tokens.withExclusiveAccess { tokens in
                tokens = nil
                throw AccessTokenError(.serviceFailed, message: "")
            }
        }
        #expect(try tokens.read() == .sample)
        try await tokens.withExclusiveAccess { _ in }
    }

    @Test func waitForTheLockIsCancellable() async throws {
        let directory = try TemporaryDirectory()
        let tokens = FileTokenStorage(directory: directory.path)
        try await tokens.withExclusiveAccess { _ in
            let waiting = Task { try await FileTokenStorage(directory: directory.path).withExclusiveAccess { _ in } }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
    }

    @Test func storedTokensAreNotPrinted() {
        var dumped = ""
        dump(StoredTokens.sample, to: &dumped)
        #expect(!(dumped + "\(StoredTokens.sample)").contains("canary"))
    }
}
