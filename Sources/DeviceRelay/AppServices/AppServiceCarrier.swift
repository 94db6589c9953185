// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What an app service connection stands on: a session, or one stateless message.
package protocol AppServiceCarrier: AnyObject, Sendable {
    /// The app has begun to use the connection. May be called again.
    func accept()
    /// Sends a request and waits for the answer.
    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet
    /// The app is done with the connection: without an error, or because its service threw one. May be called again.
    func finish(_ error: (any Error)?)
}
