// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// What a task waits for on the paths that every call takes. It is resumed exactly once: builds for debugging check that, and the tests
// with them; optimized ones save the check's allocation.

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
