// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayTesting

/// nginx before the nodes of a relay, at their common URL.
final class Balancer {
    static let isPossible = FileManager.default.isExecutableFile(atPath: "/usr/sbin/nginx")

    private let directory = FileManager.default.temporaryDirectory.appending(path: "balancer-\(UUID().uuidString)")
    private let port: Int
    private let nginx = Process()

    init(port: Int, to nodes: [RelaydProcess]) async throws {
        self.port = port
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        try write(nodes)
        nginx.executableURL = URL(filePath: "/usr/sbin/nginx")
        nginx.arguments = ["-p", directory.path, "-e", directory.path + "/error.log", "-c", directory.path + "/nginx.conf"]
        _ = try ProcessStart.reading(nginx)
        try await answers(as: nil)
    }

    deinit {
        if nginx.isRunning { nginx.terminate() }
        try? FileManager.default.removeItem(at: directory)
    }

    /// Leads to other nodes from now on. Open connections stay.
    func lead(to nodes: [RelaydProcess]) async throws {
        try write(nodes)
        kill(nginx.processIdentifier, SIGHUP)
        for node in nodes { try await answers(as: node) }
    }

    private func write(_ nodes: [RelaydProcess]) throws {
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
                upstream relay { \(nodes.map { "server \($0.host) max_fails=0;" }.joined(separator: " ")) }
                map $http_upgrade $connection_upgrade { default upgrade; '' close; }
                server {
                    listen 127.0.0.1:\(port);
                    location / {
                        proxy_pass http://relay;
                        proxy_http_version 1.1;
                        proxy_next_upstream error http_503;
                        proxy_set_header Host $http_host;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection $connection_upgrade;
                        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                        proxy_read_timeout 90s;
                    }
                }
            }
            """
        try Data(text.utf8).write(to: directory.appending(path: "nginx.conf"))
    }

    private func node(at origin: String) async -> String? {
        guard let address = try? RelayAddress(url(origin)) else { return nil }
        let answer = try? await HTTPRequestClient().send(HTTPRequest(.GET, "/readyz"), to: address, trust: RelayTrust(relay: nil))
        return answer?.status == 200 ? answer?.headers.first(name: "relay-node") : nil
    }

    /// Waits until a node is reached through nginx; `nil` for any.
    private func answers(as node: RelaydProcess?) async throws {
        while nginx.isRunning {
            let found = await self.node(at: "http://127.0.0.1:\(port)")
            if let found {
                guard let node else { return }
                if await self.node(at: node.origin) == found { return }
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw RelaydProcess.Failed(message: (try? String(contentsOf: directory.appending(path: "error.log"), encoding: .utf8)) ?? "")
    }
}
