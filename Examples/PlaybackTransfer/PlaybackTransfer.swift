// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import ExampleSupport
import Foundation

// Continues a film on another device: in the player, or if that is missing, on the film's web page.

let player = "org.example.player"
let browser = "org.example.browser"

/// A position in a film, as the player's URIs express it.
struct Position {
    var film: String
    var seconds: Int

    init(film: String, seconds: Int) {
        self.film = film
        self.seconds = seconds
    }

    /// Parses a URI such as `film://42?t=1200`.
    init?(_ uri: String) {
        guard let parts = URLComponents(string: uri, encodingInvalidCharacters: false), parts.scheme == "film", let film = parts.host,
            let seconds = parts.queryItems?.first(where: { $0.name == "t" })?.value.flatMap({ Int($0) }), seconds >= 0
        else { return nil }
        self.init(film: film, seconds: seconds)
    }

    private func uri(_ start: String) throws -> LaunchURI {
        guard film.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { throw Problem("a film is a number") }
        return try LaunchURI("\(start)\(film)?t=\(seconds)")
    }

    var inPlayer: LaunchURI { get throws { try uri("film://") } }
    var onWebPage: LaunchURI { get throws { try uri("https://films.example/") } }
}

let playerApp = RemoteSystemAppRegistration(
    appID: player,
    displayName: "Player",
    launchHandler: LaunchHandler(schemes: ["film"], defaultFor: ["film"]) { request in
        // The URI comes from another device and may be invalid.
        guard let position = Position(request.uri.text) else { return .unsupported }
        say("playing film \(position.film) from \(position.seconds) s, sent by \(request.caller.deviceName)")
        return .launched
    }
)

let browserApp = RemoteSystemAppRegistration(
    appID: browser,
    displayName: "Browser",
    launchHandler: LaunchHandler(schemes: ["https"]) { request in
        say("opening \(request.uri.text)")
        return .launched
    }
)

func send(_ position: Position, to name: String, in directory: String) async throws {
    try await ExampleDevice.with(directory, app: player) { device in
        let system = try await device.system(named: name, with: [player, browser])
        let options = RemoteLauncherOptions(fallbackURI: try position.onWebPage, preferredAppIDs: [player])
        do {
            let receipt = try await device.platform.launch(try position.inPlayer, on: .init(system), options: options)
            say("it goes on \(receipt.isFallback ? "on a web page" : "in the player") of \(system.displayName)")
        } catch let error as RemoteLaunchError where error.code == .pending {
            say("\(system.displayName) is not there; it goes on as soon as it is")
        }
    }
}

@main
enum Program {
    static func main() async {
        await run(usage: "PlaybackTransfer DIRECTORY (join NAME | host player|browser | send DEVICE FILM SECONDS)") { arguments in
            switch arguments.count {
            case 3 where arguments[1] == "join": try await ExampleDevice.join(as: arguments[2], in: arguments[0], app: player)
            case 3 where arguments[1] == "host" && arguments[2] == "player": try await ExampleDevice.host(playerApp, in: arguments[0])
            case 3 where arguments[1] == "host" && arguments[2] == "browser": try await ExampleDevice.host(browserApp, in: arguments[0])
            case 5 where arguments[1] == "send":
                guard let seconds = Int(arguments[4]), seconds >= 0 else { return false }
                try await send(Position(film: arguments[3], seconds: seconds), to: arguments[2], in: arguments[0])
            default: return false
            }
            return true
        }
    }
}
