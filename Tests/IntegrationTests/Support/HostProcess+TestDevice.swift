// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting

extension HostProcess {
    convenience init(_ device: TestDevice) throws {
        try self.init(
            relay: device.settings.relay?.absoluteString ?? "",
            relayID: device.settings.relayID?.description ?? "",
            directory: device.settings.storageDirectory.deletingLastPathComponent()
        )
    }
}
