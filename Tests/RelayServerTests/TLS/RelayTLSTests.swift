// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct RelayTLSTests {
    /// A directory that is gone afterwards.
    static func withDirectory<Result>(_ work: (String) async throws -> Result) async throws -> Result {
        let path = FileManager.default.temporaryDirectory.path + "/relay-tls-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try await work(path)
    }

    static func mode(_ path: String) -> Int? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return (attributes?[.posixPermissions] as? Int).map { $0 & 0o777 }
    }

    @Test func publicAddressUsesACertificateOverTheRelaysKey() async throws {
        try await TestRelay.with(configure: { $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)] }) { relay in
            #expect(relay.url.scheme == "https")
            let socket = try await TestSocket(port: relay.port, pinned: relay.key.id)
            try await socket.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:\(relay.port)\r\n\r\n")
            #expect(await socket.answer().hasSuffix("ok\n"))
            await socket.close()
        }
    }

    @Test func helloOverTLSIsWelcomedWithAnHTTPSOrigin() async throws {
        try await TestRelay.with(configure: { $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)] }) { relay in
            let socket = try await TestSocket(port: relay.port, pinned: relay.key.id)
            try await socket.send(TestWebSocket.request(host: "127.0.0.1:\(relay.port)"))
            #expect(await socket.answer().hasPrefix("HTTP/1.1 101"))
            let client = TestWebSocket(socket: socket)
            let challenge = try await client.challenge()
            let origin = "https://127.0.0.1:\(relay.port)"
            try await client.send(try TransportTestEndpoint().hello(nonce: challenge.nonce.bytes, relay: relay.key.id, origin: origin))
            guard case .welcome = try await client.message(isWelcome: false) else {
                Issue.record("not welcome")
                return
            }
            await socket.close()
        }
    }

    @Test func clientThatPinsAnotherRelayDoesNotConnect() async throws {
        try await TestRelay.with(configure: { $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)] }) { relay in
            let socket = try await TestSocket(port: relay.port, pinned: RelayKey().id)
            try? await socket.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:\(relay.port)\r\n\r\n")
            #expect(await socket.textUntilClosed().isEmpty)
        }
    }

    @Test func plainHTTPToATLSPortIsNotAnswered() async throws {
        try await TestRelay.with(configure: { $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)] }) { relay in
            let socket = try await TestSocket(port: relay.port)
            try await socket.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:\(relay.port)\r\n\r\n")
            #expect(!(await socket.textUntilClosed().contains("ok\n")))
        }
    }

    @Test func unfinishedTLSHandshakeIsClosed() async throws {
        try await TestRelay.with(configure: {
            $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)]
            $0.limits[.helloSeconds] = 1
        }) { relay in
            let socket = try await TestSocket(port: relay.port)
            try await socket.send([0x16, 0x03, 0x01])
            #expect(await socket.textUntilClosed().isEmpty)
        }
    }

    @Test func relayThatAllowsPlainHTTPUsesItEverywhere() async throws {
        try await TestRelay.with(configure: {
            $0.listen = [ListenAddress(host: "0.0.0.0", port: 0)]
            $0.allowsPlainHTTP = true
        }) { relay in
            #expect(relay.url.scheme == "http")
            let socket = try await TestSocket(port: relay.port)
            try await socket.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:\(relay.port)\r\n\r\n")
            #expect(await socket.answer().hasSuffix("ok\n"))
            await socket.close()
        }
    }

    @Test func certificateFilesAreUsedAndReadAgain() async throws {
        try await Self.withDirectory { directory in
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            let (certificate, key) = (directory + "/chain.pem", directory + "/key.pem")
            let (first, second) = (RelayKey(), RelayKey())
            @Sendable func write(_ relayKey: RelayKey) throws {
                try Data(try TLSContext.certificatePEM(over: relayKey).utf8).write(to: URL(filePath: certificate))
                try Data(relayKey.privateKey.pemRepresentation.utf8).write(to: URL(filePath: key))
            }
            try write(first)
            try await TestRelay.with(configure: {
                $0.certificateFile = certificate
                $0.keyFile = key
            }) { relay in
                #expect(relay.url.scheme == "https")
                let socket = try await TestSocket(port: relay.port, pinned: first.id)
                try await socket.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n\r\n")
                #expect(await socket.answer().hasSuffix("ok\n"))
                await socket.close()
                try write(second)
                relay.service.reloadCertificates()
                let again = try await TestSocket(port: relay.port, pinned: second.id)
                try await again.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n\r\n")
                #expect(await again.answer().hasSuffix("ok\n"))
                await again.close()
                // Broken files change nothing.
                try Data("nothing".utf8).write(to: URL(filePath: certificate))
                relay.service.reloadCertificates()
                let third = try await TestSocket(port: relay.port, pinned: second.id)
                try await third.send("GET /healthz HTTP/1.1\r\nHost: \(relay.host)\r\n\r\n")
                #expect(await third.answer().hasSuffix("ok\n"))
                await third.close()
            }
        }
    }

    @Test func errorNamesTheInvalidCertificateOrKeyFile() async throws {
        try await Self.withDirectory { directory in
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            let key = RelayKey()
            let names = ["chain": try TLSContext.certificatePEM(over: key), "key": key.privateKey.pemRepresentation]
                .merging(["other": RelayKey().privateKey.pemRepresentation, "nothing": "nothing"]) { $1 }
            for (name, text) in names { try Data(text.utf8).write(to: URL(filePath: "\(directory)/\(name)")) }
            let cases = [
                ("none", "key", "none cannot be read"), ("chain", "none", "none cannot be read"),
                ("nothing", "key", "nothing holds no certificate"), ("chain", "nothing", "nothing holds no private key"),
                ("chain", "other", "other is not the key of the first certificate"),
            ]
            for (certificate, file, text) in cases {
                let error = #expect(throws: TLSError.self) {
                    try TLSContext(.files(certificate: "\(directory)/\(certificate)", key: "\(directory)/\(file)"))
                }
                #expect(error?.description.contains("/" + text) == true, "\(certificate) \(file): \(String(describing: error))")
            }
        }
    }

    @Test func keyIsCreatedOnceAndReadableByItsOwnerOnly() async throws {
        try await Self.withDirectory { directory in
            let first = try RelayKey.load(in: directory)
            #expect(try RelayKey.load(in: directory).id == first.id)
            #expect(Self.mode(directory) == 0o700)
            #expect(Self.mode(directory + "/relay.key") == 0o600)
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["relay.key"])
        }
    }

    @Test func keyReadableByOthersIsRejected() async throws {
        try await Self.withDirectory { directory in
            _ = try RelayKey.load(in: directory)
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory + "/relay.key")
            let error = #expect(throws: RelayKeyError.self) { try RelayKey.load(in: directory) }
            #expect(error?.problem == .readableByOthers)
            #expect(error?.description.contains("chmod 600") == true)
        }
    }

    @Test func malformedKeyFileIsNotReplaced() async throws {
        try await Self.withDirectory { directory in
            _ = try RelayKey.load(in: directory)
            let path = directory + "/relay.key"
            try Data("nothing".utf8).write(to: URL(filePath: path))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            let error = #expect(throws: RelayKeyError.self) { try RelayKey.load(in: directory) }
            #expect(error?.problem == .notAKey)
            #expect(try Data(contentsOf: URL(filePath: path)) == Data("nothing".utf8))
        }
    }

    @Test func errorForAnInvalidDirectoryNamesTheOption() {
        let error = #expect(throws: RelayKeyError.self) { try RelayKey.load(in: "/proc/relay") }
        #expect(error?.description.contains("--data-directory") == true)
    }
}
