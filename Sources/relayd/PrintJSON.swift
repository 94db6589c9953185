// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Prints the result of an operator's command as JSON.
func printJSON(_ value: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    try print(DisplayText.escaped(json: String(decoding: try encoder.encode(value), as: UTF8.self)))
}
