// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayComposition
import RelayServer
import Testing

@Suite final class DataDirectoryTests {
    private let path = FileManager.default.temporaryDirectory.appending(path: "data-\(UUID().uuidString)").path

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// It was interrupted after the directory was looked at, and before the lock was taken.
    @Test func interruptedRestoreIsDetectedUnderTheLock() throws {
        let directory = try DataDirectory(path, .made)
        let lock = try directory.lock()
        #expect(throws: StoreError.inUse(path)) { try directory.lock() }
        lock.release()
        try FileManager.default.createDirectory(atPath: path + "/restoring", withIntermediateDirectories: false)
        let error = #expect(throws: ConfigurationError.self) { try directory.lock() }
        #expect(error?.description.contains("was interrupted") == true)
    }
}
