// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Bytes of a random generator; secrets need `SystemRandomNumberGenerator`, which is cryptographic.
package func randomBytes(_ count: Int, using random: inout some RandomNumberGenerator) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
}
