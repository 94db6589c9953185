// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayAgent

/// Reads arbitrary bytes as the settings of the agent (YAML) and of `relayd` (JSON): there must be no trap.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    if let text = String(validating: bytes, as: UTF8.self) {
        let file = ConfigurationFile(path: "agent.yaml", home: Home("."))
        _ = try? file.configuration(text)
    }
    _ = try? SettingsFile(Data(bytes), of: "relayd.json")
    return 0
}
