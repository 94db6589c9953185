// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Shows how much of a content has arrived, while something else takes it.
actor ShownContent: BulkTaking {
    private let taker: any BulkTaking
    private let progress: TransferProgress
    private let (title, size): (String, Int64)
    private var reached: Int64
    private var hasBegun = false

    /// - Parameter start: The bytes that are here.
    init(_ taker: any BulkTaking, on progress: TransferProgress, _ title: String, size: Int64, at start: Int64) {
        (self.taker, self.progress, self.title, self.size, reached) = (taker, progress, title, size, start)
    }

    func take(_ frames: [BulkFrame]) async throws {
        if !hasBegun { progress.begin(title, size: size, at: reached) }
        hasBegun = true
        try await taker.take(frames)
        // What is sent again may be more.
        reached = frames.reduce(reached) { min($0 + Int64($1.dataBytes), size) }
        progress.reached(reached)
    }
}
