// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation

/// A connection to the services of this sample on another device: open, send, close.
@MainActor @Observable final class ServiceConnection {
    var text = "Hello"
    private(set) var state = Notice.progress("Not connected")
    /// The result of the last message; `nil` before one.
    private(set) var answer: Notice?

    let target: LaunchTarget
    private let platform: ConnectedDevicesPlatform
    private var connection: AppServiceConnection?

    init(_ target: LaunchTarget, on platform: ConnectedDevicesPlatform) { (self.target, self.platform) = (target, platform) }

    var isConnected: Bool { connection != nil }

    /// Opens the connection, and returns when it is closed by either side. Cancelling the task closes it.
    func connect() async {
        guard connection == nil else { return }
        state = .progress("Connecting", "It waits for the device for 30 seconds.")
        answer = nil
        do throws(AppServiceError) {
            let connection = try await platform.openAppService(SampleApp.pingService, on: target.request, from: SampleApp.id)
            self.connection = connection
            let way = RemoteSystemConnectionInfo(connection).isProximal ? "on this network" : "through the relay"
            state = .success("Connected", "To \(target.deviceName), \(way).")
            defer {
                connection.close()
                self.connection = nil
            }
            let closure = try await connection.closed
            state = Notice(closure, by: target.deviceName)
        } catch {
            state = error.code == .cancelled ? .progress("Not connected") : Notice(error)
        }
    }

    func disconnect() { connection?.close() }

    /// Sends a ping, and shows how long the answer took.
    func ping() async {
        guard let connection else { return answer = .problem("Not sent", "There is no connection.", nextStep: "Connect first.") }
        answer = .progress("Sent, no answer yet")
        // The original sent whole seconds.
        let ping = Ping(
            created: Date(timeIntervalSince1970: Date.now.timeIntervalSince1970.rounded()),
            target: target.system.id.description
        )
        let start = ContinuousClock.now
        do throws(AppServiceError) {
            let pong = try await connection.call(ping)
            guard pong.kind == "pong", pong.created == ping.created, pong.target == ping.target else {
                answer = .problem("Wrong answer", "It was no answer to this ping.")
                return
            }
            let time = start.duration(to: .now).formatted(.units(allowed: [.seconds, .milliseconds], width: .wide))
            answer = .success("Pong", "After \(time).")
        } catch {
            answer = Notice(error)
        }
    }

    /// Sends the text as a message that needs no connection, and waits for a device that sleeps.
    func sendText() async {
        answer = .progress("No answer yet", "If \(target.deviceName) sleeps, the message waits for a day. Sent shows how far it is.")
        do throws(AppServiceError) {
            let response = try await platform.sendStatelessMessage(
                Echo.message(text),
                to: SampleApp.echoService,
                on: target.request,
                from: SampleApp.id
            )
            let text = response["response"]?.string
            answer = text.map { .success("Answer", ShownText.clean($0)) } ?? .problem("Wrong answer", "It has no text.")
        } catch {
            answer = error.code == .timedOut ? .progress("No answer yet", "It goes on by itself. Sent shows how it ends.") : Notice(error)
        }
    }
}

extension Notice {
    /// How a connection ended.
    init(_ closure: AppServiceClosure, by device: String) {
        let why = ShownText.clean(closure.message)
        self =
            switch closure.status {
            case .completed: .progress("Not connected", "The connection was closed.")
            case .remoteSystemUnavailable:
                .problem("Connection lost", why, nextStep: "Check that \(device) is on, and connect again.", code: "\(closure.status)")
            default: .problem("Connection closed", why, nextStep: "Connect again.", code: "\(closure.status)")
            }
    }
}
