// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOHTTP1
import RelayProtocol

extension AgentClient {
    private struct ReportFailure: Error {
        var error: any Error
    }

    /// Reports the devices and what happens to them, until the agent ends or does not answer, or the task is cancelled.
    /// - Parameter report: Takes each event. The list comes after the stream has begun, so a device may be reported twice.
    /// - Throws: What the closure throws.
    func watch(_ report: @Sendable (Watch.Event) throws -> Void) async throws {
        var events = ServerSentEvents()
        func pass(_ event: Watch.Event) throws(ReportFailure) {
            do { try report(event) } catch { throw ReportFailure(error: error) }
        }
        do {
            try await stream(APIRequest(.get, "events", query: [("types", "device")]), [:]) { part in
                switch part {
                case .head(let head):
                    guard head.status == .ok else { throw Self.problem(Int(head.status.code), []) }
                    let list = try await run(Devices(showsAll: false), waitingLine: nil)
                    for device in list.devices { try pass(Watch.Event(.added, device)) }
                    if list.current { try pass(Watch.Event(.enumerationCompleted)) }
                case .body(let bytes):
                    for event in try events.take(bytes.readableBytesView) where event.type == "device" {
                        try pass(try JSONText.decoder.decode(Watch.Event.self, from: Data(event.data.utf8)))
                    }
                case .end: break
                }
            }
        } catch let failure as ReportFailure {
            throw failure.error
        } catch {
            // What the agent cannot tell, the caller finds out.
        }
    }
}
