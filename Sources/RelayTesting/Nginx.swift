// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// nginx, as Debian packages it, before one relay or several nodes. It ends with this value.
package final class Nginx {
    package static let isPossible = FileManager.default.isExecutableFile(atPath: program)

    private static let program = "/usr/sbin/nginx"

    private let directory = FileManager.default.temporaryDirectory.appending(path: "nginx-\(UUID().uuidString)")
    private let port: Int
    private let location: String
    private let namesClients: Bool
    private let process = Process()

    /// Starts it. Whether it takes connections, the caller finds out.
    /// - Parameters:
    ///   - upstream: The servers and their options, in the syntax of nginx.
    ///   - location: Further directives for the requests.
    ///   - namesClients: Whether it sends `X-Forwarded-For`.
    package init(port: Int, upstream: String, location: String = "", namesClients: Bool = true) throws {
        (self.port, self.location, self.namesClients) = (port, location, namesClients)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        try write(upstream)
        process.executableURL = URL(filePath: Self.program)
        process.arguments = ["-p", directory.path, "-e", directory.path + "/error.log", "-c", directory.path + "/nginx.conf"]
        _ = try ProcessStart.reading(process)
    }

    deinit {
        if process.isRunning { process.terminate() }
        ProcessRun.after(endOf: process.isRunning ? [process] : []) { [directory] in try? FileManager.default.removeItem(at: directory) }
    }

    /// Leads to other servers from now on. Open connections stay.
    package func lead(to upstream: String) throws {
        try write(upstream)
        kill(process.processIdentifier, SIGHUP)
    }

    /// Waits until a condition holds.
    /// - Throws: What nginx has logged, if it ends before.
    package func wait(until holds: () async throws -> Bool) async throws {
        while process.isRunning {
            if try await holds() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw RelaydProcess.Failed(message: (try? String(contentsOfFile: directory.path + "/error.log", encoding: .utf8)) ?? "")
    }

    private func write(_ upstream: String) throws {
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
                upstream relay { \(upstream) }
                map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
                server {
                    listen 127.0.0.1:\(port);
                    location / {
                        proxy_pass http://relay;
                        proxy_http_version 1.1;
                        proxy_set_header Host $http_host;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection $connection_upgrade;
                        \(namesClients ? "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;" : "")
                        proxy_read_timeout 90s;
                        \(location)
                    }
                }
            }
            """
        try Data(text.utf8).write(to: directory.appending(path: "nginx.conf"))
    }
}
