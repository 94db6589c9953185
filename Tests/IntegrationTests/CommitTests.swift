// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayTesting
import Testing

/// The number of journal commits of a launch. Each additional commit adds a disk flush to every launch.
@Suite(.timeLimit(.minutes(10))) struct CommitTests {
    /// The sender commits the command before it is sent and the outcome before it is reported. The target commits the start
    /// of the handler before it runs. All other writes join these commits if they come quickly; on a slow machine a launch
    /// may take one more.
    @Test func launchTakesTwoCommitsOfTheSenderAndOneOfTheTarget() async throws {
        let home = try await TestHome()
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let (sender, target) = (try WriteAheadLog(of: phone), try WriteAheadLog(of: pc))
        var least = (sender: Int.max, target: Int.max)
        for number in 0..<200 where least != (2, 1) {
            let before = (try sender.commits(), try target.commits())
            _ = try await RemoteLauncher(phone.platform).launch(try url("https://films.example/\(number)"), on: request)
            let after = (try sender.commits(), try target.commits())
            // The log restarted after a checkpoint.
            guard after.0 >= before.0, after.1 >= before.1 else { continue }
            least = (min(least.sender, after.0 - before.0), min(least.target, after.1 - before.1))
        }
        #expect(least == (2, 1))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    /// The stopped relay is silent, and the target cannot tell it from a slow one.
    @Test func unsettledResultIsStored() async throws {
        let home = try await TestHome()
        let (phone, pc, log) = (try await home.device("Phone"), try await home.device("PC"), Log<String>())
        let relay = try #require(home.relayd.processIdentifier)
        defer { kill(relay, SIGCONT) }
        let app = player(log: log) { _ in
            kill(relay, SIGSTOP)
            return .launched
        }
        try await pc.platform.publish(app, for: pc.account)
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let command = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: request)
        let journal = try DatabaseQueue(path: try pc.journal().path)
        let answered = "SELECT count(*) FROM received_commands JOIN results USING (sender, id) WHERE state = 'answered'"
        while try await journal.read({ try Int.fetchOne($0, sql: answered) }) == 0 { try await Task.sleep(for: .milliseconds(10)) }
        try journal.close()
        kill(relay, SIGCONT)
        _ = try await command.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}

/// A journal's write-ahead log, as SQLite's file format describes it ("The Write-Ahead Log").
private struct WriteAheadLog {
    let file: URL

    init(of device: TestDevice) throws { file = URL(filePath: try device.journal().path + "-wal") }

    /// The number of commits in the log.
    func commits() throws -> Int {
        let bytes = [UInt8](try Data(contentsOf: file))
        func number(at offset: Int) -> UInt64 { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt64($1) } }
        guard bytes.count >= 32 else { return 0 }
        let frame = 24 + Int(number(at: 8))
        let salts = bytes[16..<24]
        var count = 0
        for start in stride(from: 32, through: bytes.count - frame, by: frame) {
            // Frames of an earlier round have other salts.
            guard bytes[start + 8..<start + 16].elementsEqual(salts) else { break }
            // The last frame of a commit contains the size of the database.
            if number(at: start + 4) > 0 { count += 1 }
        }
        return count
    }
}
