// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The transport of an app service connection: a session, or one stateless message.
package protocol AppServiceCarrier: AnyObject, Sendable {
    /// Whether the path is direct now.
    var isDirect: Bool { get }
    /// Accepts the connection, because the app has begun to use it. Repeated calls have no effect.
    func accept()
    /// Sends a request and waits for the response.
    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet
    /// Ends the connection for the app. Repeated calls have no effect.
    /// - Parameter error: The error that the service threw, if any.
    func finish(_ error: (any Error)?)
}
