// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct SendTests {
    /// Two devices, and a folder of each.
    private struct World {
        let account: TestAccount
        let (desk, tv): (TestDevice, TestDevice)
        let (from, into): (String, String)

        init() async throws {
            account = try await TestAccount()
            (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
            (from, into) = (desk.directory.path + "/from", tv.directory.path + "/into")
            try FileManager.default.createDirectory(atPath: from + "/Photos/empty", withIntermediateDirectories: true)
            try Data("Hello".utf8).write(to: URL(filePath: from + "/hello.txt"))
            try Data((0..<700_001).map { UInt8(truncatingIfNeeded: $0) }).write(to: URL(filePath: from + "/Photos/Rome è bella"))
        }

        /// A receiving command that is ready.
        func receiver(_ arguments: String...) async throws -> RelayProcess {
            let receiver = try tv.startReading(["receive", "--into", into, "--json"] + arguments)
            _ = try await receiver.line { $0.contains(#""event":"ready""#) }
            return receiver
        }

        func content(_ name: String) -> [UInt8]? { FileManager.default.contents(atPath: "\(into)/\(name)").map { [UInt8]($0) } }

        /// A sparse file, large enough to be interrupted.
        func makeLarge() throws {
            guard FileManager.default.createFile(atPath: from + "/large", contents: nil) else { throw CocoaError(.fileWriteUnknown) }
            let file = try FileHandle(forWritingTo: URL(filePath: from + "/large"))
            try file.truncate(atOffset: UInt64(large))
            try file.close()
        }

        let large = 256 << 20

        /// Waits until a part of the large file is there.
        func hasBegun() async throws {
            try await wait {
                let names = try FileManager.default.contentsOfDirectory(atPath: into)
                return try names.contains { name in
                    guard name.hasSuffix(".relay-part"), FileManager.default.fileExists(atPath: "\(into)/\(name)/large") else {
                        return false
                    }
                    let size = try FileManager.default.attributesOfItem(atPath: "\(into)/\(name)/large")[.size] as? NSNumber
                    return (size?.intValue ?? 0) > 1 << 20
                }
            }
        }
    }

    @Test func filesLinksAndTextsArrive() async throws {
        let world = try await World()
        let nobody = try await world.desk.relay("send", world.from + "/hello.txt", "TV", "--json")
        #expect(try nobody.status == 4 && code(nobody) == "remoteSystemUnavailable", "\(nobody.text)")
        let host = try await world.tv.host()
        let other = try await world.desk.relay("send", world.from + "/hello.txt", "TV", "--json")
        #expect(try other.status == 4 && code(other) == "appServiceUnavailable" && other.text.contains("relay receive"), "\(other.text)")
        host.send(SIGINT)
        _ = await host.finish()
        let receiver = try await world.receiver("--once")
        let sent = try await world.desk.relay(
            "send",
            world.from + "/hello.txt",
            world.from + "/Photos/",
            "https://films.example/42",
            "--text",
            "line one\nline two",
            "TV",
            "--json"
        )
        #expect(sent.status == 0, "\(sent.text)")
        #expect(try sent.json["names"] as? [String] == ["hello.txt", "Photos"])
        #expect(try sent.json["files"] as? Int == 2 && sent.json["bytes"] as? Int == 700_006 && sent.json["sent"] as? Int == 700_006)
        let received = try JSON.object(try await receiver.line { $0.contains(#""event":"received""#) })
        #expect(received["names"] as? [String] == ["hello.txt", "Photos"])
        #expect(received["uris"] as? [String] == ["https://films.example/42"] && received["texts"] as? [String] == ["line one\nline two"])
        #expect((received["from"] as? [String: Any])?["name"] as? String == "Desk")
        #expect(await receiver.finish().status == 0)
        #expect(world.content("hello.txt") == Array("Hello".utf8) && world.content("Photos/Rome è bella")?.count == 700_001)
        #expect(FileManager.default.fileExists(atPath: world.into + "/Photos/empty"))
    }

    @Test func standardInputIsATextOrAFile() async throws {
        let world = try await World()
        let receiver = try await world.receiver()
        for (input, arguments, names, texts) in [
            ("a text", [], [], ["a text"]), ("a text", ["--name", "note.txt"], ["note.txt"], nil),
            (String(repeating: "x", count: 70_000), [], ["standard-input"], nil),
        ] as [(String, [String], [String], [String]?)] {
            let sender = try world.desk.startReading(["send", "-", "TV", "--json"] + arguments)
            try sender.write(input)
            try sender.endInput()
            let output = await sender.finish()
            #expect(output.status == 0, "\(output.text)")
            let received = try JSON.object(try await receiver.line { $0.contains(#""event":"received""#) })
            #expect(received["names"] as? [String] == names && received["texts"] as? [String] == texts)
        }
        #expect(world.content("note.txt") == Array("a text".utf8) && world.content("standard-input")?.count == 70_000)
        receiver.send(SIGINT)
        #expect(await receiver.finish().status == 0)
    }

    /// A sender that is killed continues when it is run again; one whose receiver is killed waits for it.
    @Test func killedTransfersContinue() async throws {
        let world = try await World()
        try world.makeLarge()
        var receiver = try await world.receiver()
        let killed = try world.desk.start("send", world.from + "/large", "TV")
        try await world.hasBegun()
        killed.send(SIGKILL)
        #expect(await killed.finish().status == 128 + SIGKILL)
        let sender = try world.desk.start("send", world.from + "/large", "TV", "--json")
        try await world.hasBegun()
        receiver.send(SIGKILL)
        _ = await receiver.finish()
        receiver = try await world.receiver()
        let output = await sender.finish()
        #expect(output.status == 0, "\(output.text)")
        #expect(try output.json["names"] as? [String] == ["large"] && output.json["bytes"] as? Int == world.large)
        #expect(try output.json["sent"] as? Int ?? .max < world.large)
        #expect(try FileManager.default.contentsOfDirectory(atPath: world.into) == ["large"])
        let size = try FileManager.default.attributesOfItem(atPath: world.into + "/large")[.size] as? NSNumber
        #expect(size?.intValue == world.large)
        // It is there: nothing is sent, and nothing gets a second name.
        let again = try await world.desk.relay("send", world.from + "/large", "TV", "--json")
        #expect(try again.json["names"] as? [String] == ["large"] && again.json["sent"] as? Int == 0)
        receiver.send(SIGINT)
        _ = await receiver.finish()
    }

    @Test func interruptedSenderSaysHowToContinue() async throws {
        let world = try await World()
        try world.makeLarge()
        let receiver = try await world.receiver()
        let sender = try world.desk.start("send", world.from + "/large", "TV")
        try await world.hasBegun()
        sender.send(SIGINT)
        let output = await sender.finish()
        #expect(output.status == 130, "\(output.errorText)")
        #expect(output.errorText.contains("the same command continues the transfer"), "\(output.errorText)")
        receiver.send(SIGINT)
        _ = await receiver.finish()
    }

    @Test func agentReceivesIntoItsFolder() async throws {
        let world = try await World()
        let agent = try await world.tv.agent("receive:\n  folder: \(world.into)\n")
        let sent = try await world.desk.relay("send", world.from + "/hello.txt", "--text", "secret text", "TV", "--json")
        #expect(sent.status == 0, "\(sent.text)")
        let line = try await agent.line { $0.contains(#""event":"received""#) }
        #expect(try JSON.object(line)["names"] as? [String] == ["hello.txt", "Text.txt"])
        // The content of a text goes to a file, and to no log.
        #expect(!line.contains("secret text") && world.content("Text.txt") == Array("secret text".utf8))
        // The agent has the device's app: a second receiver says so.
        let second = try await world.tv.relay("receive", "--into", world.into, "--json")
        #expect(try second.status == 1 && code(second) == "endpointInUse", "\(second.text)")
        try world.tv.setAgent("receive:\n  accept: nothing\n")
        agent.send(SIGHUP)
        _ = try await agent.line { $0.contains(#""event":"reloaded""#) }
        #expect(try await world.desk.relay("send", world.from + "/hello.txt", "TV").status == 4)
    }

    /// Without settings, what comes goes to the home of the process.
    @Test func agentReceivesIntoTheDownloadsOfItsHome() async throws {
        let world = try await World()
        let agent = try await world.tv.agent()
        #expect(try await world.desk.relay("send", world.from + "/hello.txt", "TV").status == 0)
        let place = world.tv.directory.path + "/Downloads/hello.txt"
        #expect(FileManager.default.contents(atPath: place).map { [UInt8]($0) } == Array("Hello".utf8))
        _ = agent
    }

    @Test func personCanDecline() async throws {
        let world = try await World()
        let receiver = try world.tv.startAtTerminal("receive", "--into", world.into, "--ask")
        _ = try await receiver.line { $0.contains("receiving into") }
        let sender = try world.desk.start("send", world.from + "/hello.txt", "TV", "--json")
        _ = try await receiver.line { $0.contains("Take it?") }
        try receiver.write("n\n")
        let output = await sender.finish()
        #expect(try output.status == 6 && code(output) == "deniedByRemoteSystem", "\(output.text)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: world.into).isEmpty)
        receiver.send(SIGINT)
        _ = await receiver.finish()
    }

    @Test func leftOutFilesAreNamed() async throws {
        let world = try await World()
        try FileManager.default.createSymbolicLink(atPath: world.from + "/Photos/link", withDestinationPath: "/etc/passwd")
        let receiver = try await world.receiver()
        let output = try await world.desk.relay("send", world.from + "/Photos", "TV")
        #expect(output.status == 9, "\(output.text)")
        #expect(output.errorText.contains("'Photos/link' was left out: it is a link"), "\(output.errorText)")
        #expect(world.content("Photos/Rome è bella")?.count == 700_001 && world.content("Photos/link") == nil)
        receiver.send(SIGINT)
        _ = await receiver.finish()
    }

    @Test func wrongUseSaysWhatToDo() async throws {
        let world = try await World()
        for (arguments, status, text) in [
            (["send"], 2, "Name the device"), (["send", "TV"], 2, "relay send FILE TV"),
            (["send", "missing.txt", "TV"], 4, "--text=missing.txt"),
            (["send", "-", "-", "TV"], 2, "once"), (["send", world.from, "--name", "x", "TV"], 2, "--name"),
            (["send", world.from + "/hello.txt", "Nobody"], 4, "Nobody"), (["receive", "--into", ""], 2, "--into"),
            (["receive", "--into", world.from + "/hello.txt"], 1, "hello.txt"), (["receive", "--ask", "--json"], 2, "--json"),
        ] as [([String], Int32, String)] {
            let output = try await world.desk.run(arguments)
            let words = output.text + output.errorText
            #expect(output.status == status && words.contains(text), "\(arguments): \(output.status) \(words)")
        }
    }

    /// Nothing leads from a device to itself.
    @Test func aDeviceIsNotItsOwnTarget() async throws {
        let world = try await World()
        let agent = try await world.desk.agent("files:\n  folder: \(world.from)\nreceive:\n  folder: \(world.into)\n")
        for command in [
            ["send", world.from + "/hello.txt", "Desk"], ["fetch", "Desk"], ["fetch", "Desk", "--no-agent"], ["call", "Desk", "ping"],
        ] {
            let output = try await world.desk.run(command)
            #expect(output.status == 2 && output.errorText.contains("'Desk' is this device itself"), "\(command): \(output.errorText)")
        }
        agent.send(SIGTERM)
    }

    /// Both sides say it: the sender with the reserve, the receiver in a line of its log, which has no name of a file.
    @Test(.enabled(if: SmallDisk.isPossible)) func aDiskWithoutRoomIsNamedOnBothSides() async throws {
        let (world, disk) = (try await World(), try SmallDisk(megabytes: 8))
        let agent = try await world.tv.agent("receive:\n  folder: \(disk.directory.path)\n")
        let output = try await world.desk.relay("send", world.from + "/hello.txt", "TV", "--json")
        let error = try #require(try output.json["error"] as? [String: Any])
        #expect(
            error["code"] as? String == "remoteDiskFull" && (error["message"] as? String)?.contains("a GiB of its disk stays free") == true
        )
        let line = try await agent.errorLine { $0.contains("was not stored") }
        #expect(line.contains("a transfer from \"Desk\"") && line.contains("no room") && !line.contains("hello"), "\(line)")
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// The advice for a text that looks like an option does what it says.
    @Test func aTextThatBeginsWithAHyphenIsSent() async throws {
        let world = try await World()
        let receiver = try await world.receiver()
        let missing = try await world.desk.relay("send", "--", "--x", "TV")
        #expect(missing.status == 4 && missing.errorText.contains("write --text=--x"), "\(missing.errorText)")
        let sent = try await world.desk.relay("send", "--text=--x", "TV")
        #expect(sent.status == 0, "\(sent.errorText)")
        let received = try JSON.object(try await receiver.line { $0.contains(#""event":"received""#) })
        #expect(received["texts"] as? [String] == ["--x"])
        // What has no size leaves no gap.
        #expect(try await world.desk.relay("send", "--text", "x", "TV").output == ["sent on TV"])
        #expect(try await world.desk.relay("send", "--help").text.contains("[--visible] <device[/app]>"))
        receiver.send(SIGINT)
        _ = await receiver.finish()
    }
}
