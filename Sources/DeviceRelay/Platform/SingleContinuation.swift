// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// A continuation for frequent paths that is resumed exactly once. Debug builds check that; release builds save the
// allocation of the check.

#if DEBUG
typealias SingleContinuation<Value> = CheckedContinuation<Value, Never>

func withSingleContinuation<Value>(
    isolation: isolated (any Actor)? = #isolation,
    _ body: (SingleContinuation<Value>) -> Void
) async -> sending Value {
    await withCheckedContinuation(body)
}
#else
typealias SingleContinuation<Value> = UnsafeContinuation<Value, Never>

@inline(__always)
func withSingleContinuation<Value>(
    isolation: isolated (any Actor)? = #isolation,
    _ body: (SingleContinuation<Value>) -> Void
) async -> sending Value {
    await withUnsafeContinuation(body)
}
#endif
