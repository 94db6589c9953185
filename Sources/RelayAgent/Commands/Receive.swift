// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import RelayStorage

/// Receives what other devices send, until SIGINT or SIGTERM.
package struct Receive: Sendable {
    static let appID = "org.device-relay.receive"
    /// How long a sender that lost the connection may take to ask for the result.
    private static let resultPatience = TimeAmount.seconds(60)

    var folder: String
    var isOnce: Bool
    var asks: Bool

    /// - Parameters:
    ///   - folder: The folder for files.
    ///   - isOnce: Whether to end after the first transfer.
    ///   - asks: Whether to ask about each transfer.
    package init(into folder: String, isOnce: Bool, asks: Bool) {
        (self.folder, self.isOnce, self.asks) = (folder, isOnce, asks)
    }

    package struct Ready: AgentResult {
        package var event = "ready"
        package var app: String
        package var folder: String
        fileprivate var ending: String

        private enum CodingKeys: String, CodingKey { case event, app, folder }

        package var notes: [String] { ["receiving into \(folder); it ends with \(ending)"] }
        package func lines(_ style: Style) -> [String] { [] }
    }

    /// Runs until SIGINT, SIGTERM or, with `isOnce`, the end of the first transfer.
    package func run(_ context: AgentContext) async throws {
        let output = HostOutput(console: context.console)
        let path = try Self.place(folder)
        let first = OneShot<Void>()
        let receiving = Receiving(
            appID: Self.appID,
            folder: path,
            access: asks ? .ask : .known,
            keepsNotes: false,
            answerers: Answerers(terminal: context.console.isJSON ? nil : TerminalQuestion(console: context.console)),
            console: context.console,
            report: { try? output.print($0) },
            ended: Self.settling(first),
            log: { [console = context.console] in console.note($0) }
        )
        let app = RemoteSystemAppRegistration(
            appID: Self.appID,
            displayName: "relay receive",
            services: [PingService.service],
            sharing: receiving.handler
        )
        // Devices of other people are asked about each time.
        var asking = receiving
        asking.access = .ask
        let paired = RemoteSystemAppRegistration(appID: Self.appID, displayName: "relay receive", sharing: asking.handler)
        do {
            try await context.host(app, paired: paired, output: output, isTransient: true, until: isOnce ? first : nil) { _ in
                let ending = isOnce ? "the first transfer, or with Ctrl-C" : "Ctrl-C"
                try output.print(Ready(app: Self.appID, folder: path, ending: ending))
            }
        } catch let error as PlatformError where error.code == .endpointInUse {
            throw AgentError("endpointInUse", "the agent of this device runs and receives itself; see 'receive' in docs/agent.md", .failed)
        }
    }

    /// Makes the folder, if it does not exist.
    /// - Returns: Its absolute path.
    static func place(_ folder: String) throws -> String {
        _ = try Destination.makeFolder(at: folder)
        guard let real = realpath(folder, nil) else { throw AgentError(SystemError(), folder) }
        defer { free(real) }
        return String(cString: real)
    }

    /// Settles once a transfer has ended, and its sender knows the result or had time to ask for it.
    static func settling(_ first: OneShot<Void>) -> @Sendable (Bool) -> Void {
        { isTold in
            guard !isTold else { return _ = first.settle(()) }
            // The sender may come back for the result.
            MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: Self.resultPatience) { _ = first.settle(()) }
        }
    }
}
