// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Runs code of the app. It may compute or block for long, so it does not run on the loop of the endpoint that waits for it.
@concurrent
func appCode<Value: Sendable, Failure: Error>(_ body: @Sendable () async throws(Failure) -> Value) async throws(Failure) -> Value {
    try await body()
}
