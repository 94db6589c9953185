// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The relay behind nginx, which uses its connections to the relay for many requests (`keepalive`).
@Suite(
    .timeLimit(.minutes(10)),
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/sbin/nginx"), "needs Debian's package nginx")
) final class NginxTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "nginx-\(UUID().uuidString)")
    private let nginx = Process()

    init() throws { try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false) }

    deinit {
        if nginx.isRunning { nginx.terminate() }
        ProcessRun.after(endOf: nginx.isRunning ? [nginx] : []) { [directory] in try? FileManager.default.removeItem(at: directory) }
    }

    private func start(port: Int, to relayd: RelaydProcess) async throws {
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(directory.path)/\($0);" }.joined()
        let text = """
            \(geteuid() == 0 ? "user root;" : "")
            worker_processes 1;
            daemon off;
            pid \(directory.path)/pid;
            error_log \(directory.path)/error.log;
            events { worker_connections 64; }
            http {
                access_log off;
                \(folders)
                upstream relay {
                    server \(relayd.host);
                    keepalive 1;
                }
                map $http_upgrade $connection_upgrade {
                    default upgrade;
                    ''      '';
                }
                server {
                    listen 127.0.0.1:\(port);
                    location / {
                        proxy_pass http://relay;
                        proxy_http_version 1.1;
                        proxy_set_header Host $http_host;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection $connection_upgrade;
                        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                        proxy_read_timeout 90s;
                    }
                }
            }
            """
        let file = directory.appending(path: "nginx.conf")
        try Data(text.utf8).write(to: file)
        nginx.executableURL = URL(filePath: "/usr/sbin/nginx")
        nginx.arguments = ["-p", directory.path, "-e", directory.path + "/error.log", "-c", file.path]
        _ = try ProcessStart.reading(nginx)
        while nginx.isRunning {
            if let socket = try? await TestSocket(port: port) { return await socket.close() }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw RelaydProcess.Failed(message: (try? String(contentsOf: directory.appending(path: "error.log"), encoding: .utf8)) ?? "")
    }

    @Test func aConnectionThatNginxHasUsedBeforeBecomesAChannel() async throws {
        let port = try FreePort.take()
        let host = "127.0.0.1:\(port)"
        let relayd = try await RelaydProcess(arguments: ["--url", "http://\(host)", "--trusted-proxy", "127.0.0.1"])
        _ = try await relayd.start()
        try await start(port: port, to: relayd)
        var channels: [TestWebSocket] = []
        for _ in 0..<8 {
            let browser = try await TestSocket(port: port)
            try await browser.send("GET /healthz HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
            #expect(await browser.textUntilClosed().hasPrefix("HTTP/1.1 200"))
            let channel = try await TestWebSocket.open(try await TestSocket(port: port), host: host)
            _ = try await channel.challenge()
            channels.append(channel)
        }
        for (number, channel) in channels.enumerated() {
            try await channel.send(opcode: 9, Array("\(number)".utf8))
            #expect(await channel.frame() == .pong(Array("\(number)".utf8)))
        }
        #expect(try await relayd.stop() == 0)
        for channel in channels { #expect(await channel.closeCode() == 1012) }
    }
}
