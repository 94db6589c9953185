// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import DeviceRelay
import Foundation
import RelayTesting
import Testing

/// Programs that are killed, or whose disk fails, at each step of their first start, of a join and of a refresh. What they leave opens again,
/// and no secret is used up without its result.
///
/// The suite runs a few steps, chosen by a seed. With `DEVICE_RELAY_FULL_SWEEPS=1` it runs all of them.
@Suite(
    .serialized,
    .timeLimit(.minutes(60)),
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/strace"), "needs Debian's package strace")
)
struct KillSweepTests {
    /// What happens at which system call: the `number`th of a thread.
    struct Step: CustomStringConvertible, Sendable {
        enum Blow: String, CaseIterable, Sendable {
            case kill = "signal=SIGKILL"
            case fullDisk = "error=ENOSPC"
            case failingDisk = "error=EIO"
        }

        var blow: Blow
        var call: String
        var number: Int

        var description: String { "\(blow.rawValue) at \(call) \(number)" }

        var arguments: [String] {
            ["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call)", "-e", "inject=\(call):\(blow.rawValue):when=\(number)"]
        }
    }

    private static let isFull = ProcessInfo.processInfo.environment["DEVICE_RELAY_FULL_SWEEPS"] != nil
    private static let seed = ProcessInfo.processInfo.environment["DEVICE_RELAY_SEED"].flatMap { UInt64($0) } ?? .random(in: 1 ... .max)
    /// The calls that change files.
    private static let calls = ["fsync", "rename", "link", "unlink", "mkdir", "pwrite64", "ftruncate", "chmod", "fcntl"]

    /// Runs steps until no call has as many as the step's number.
    /// - Parameter run: Returns whether the blow had an effect.
    private static func sweep(_ few: Int, _ run: (Step) async throws -> Bool) async throws {
        var random = SeededGenerator(seed: seed)
        print("seed \(seed)")
        guard isFull else {
            for _ in 0..<few {
                let call = calls.randomElement(using: &random) ?? ""
                // Most of the time a kill: it shows the most.
                let blow = Bool.random(using: &random) ? Step.Blow.kill : Step.Blow.allCases.randomElement(using: &random) ?? .kill
                _ = try await run(Step(blow: blow, call: call, number: .random(in: 1...12, using: &random)))
            }
            return
        }
        for blow in Step.Blow.allCases {
            for call in calls {
                for number in 1... {
                    guard try await run(Step(blow: blow, call: call, number: number)), number < 200 else { break }
                }
            }
        }
    }

    private static func start(_ step: Step, _ program: URL, _ arguments: [String], _ environment: [String: String]) throws -> RelayProcess {
        try RelayProcess(
            step.arguments + [program.path] + arguments,
            executable: URL(filePath: "/usr/bin/strace"),
            environment: environment
        )
    }

    private static var relay: URL { Project.products.appending(path: "relay") }

    @Test func firstStartOfTheRelay() async throws {
        try await Self.sweep(6) { step in
            let relayd = try await RelaydProcess()
            relayd.standardError = .nullDevice
            let arguments = ["serve", "--data-directory", relayd.directory.path, "--listen", relayd.host, "--tunnel-listen", "127.0.0.1:0"]
            let first = try Self.start(step, RelaydProcess.executable, arguments, ["PATH": "/usr/bin:/bin"])
            let isReady = (try? await first.line { $0.contains("http://") }) != nil
            first.send(SIGKILL)
            _ = await first.finish()
            do {
                _ = try await relayd.start()
                let device = try TestDevice()
                let list = try await relayd.run("account", "list", "--json")
                let accounts = try JSONSerialization.jsonObject(with: Data(list.utf8)) as? [[String: Any]]
                #expect(accounts?.count == 1, "\(step), seed \(Self.seed)")
                let name = try #require(accounts?.first?["name"] as? String)
                let joined = try await device.relay("join", try await relayd.run("invite", name))
                #expect(joined.status == 0, "\(step), seed \(Self.seed): \(joined.errorText)")
                #expect(try await relayd.stop() == 0)
            } catch {
                Issue.record("\(step), seed \(Self.seed): \(error)")
            }
            return !isReady
        }
    }

    @Test func firstStartOfADevice() async throws {
        let relayd = try await RelaydProcess()
        relayd.standardError = .nullDevice
        _ = try await relayd.start()
        var accounts = 0
        try await Self.sweep(8) { step in
            accounts += 1
            _ = try await relayd.run("account", "add", "A\(accounts)")
            let link = try await relayd.run("invite", "A\(accounts)")
            let device = try TestDevice()
            let arguments = ["join", link, "--name", "Desk", "--home", device.home]
            let first = await (try Self.start(step, Self.relay, arguments, device.environment)).finish()
            // The same link works again, whatever was stored, unless it has done its work.
            let again = try await device.relay("join", link, "--name", "Desk", "--json")
            let isDone = try (again.json["error"] as? [String: Any])?["code"] as? String == "alreadyJoined"
            #expect(again.status == 0 || isDone, "\(step), seed \(Self.seed): \(first.errorText); \(again.text)")
            let devices = try await device.relay("devices")
            #expect(devices.status == 0, "\(step), seed \(Self.seed): \(devices.errorText)")
            return first.status != 0
        }
    }

    @Test func refresh() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        let folder = URL(filePath: device.home).appending(path: "accounts")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let tokens = FileTokenStorage(directory: folder.appending(path: name).path)
        try await Self.sweep(8) { step in
            let old = try await tokens.withExclusiveAccess { tokens in
                tokens?.accessTokenExpires = 0
                return tokens?.refreshToken
            }
            let first = await (try Self.start(step, Self.relay, ["devices", "--home", device.home], device.environment)).finish()
            let devices = try await device.relay("devices")
            #expect(devices.status == 0, "\(step), seed \(Self.seed): \(first.errorText); \(devices.errorText)")
            #expect(try tokens.read()?.refreshToken != old)
            return first.status != 0
        }
    }
}
#endif
