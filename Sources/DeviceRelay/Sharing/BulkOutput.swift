// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// Passes on the content of one file, entry 0, as it arrives.
package actor BulkOutput: BulkTaking {
    private let write: @Sendable ([UInt8]) async throws -> Void
    private var content: BulkContent
    /// Why the content is not whole, once its end has arrived.
    package private(set) var problem: ShareMessages.EntryProblem?

    /// - Parameter size: In bytes, not negative.
    package init(size: Int64, _ write: @escaping @Sendable ([UInt8]) async throws -> Void) {
        (content, self.write) = (BulkContent(size: size), write)
    }

    package func take(_ frames: [BulkFrame]) async throws {
        for frame in frames {
            switch frame {
            case .data(0, let offset, let data):
                // What is passed on cannot be taken back.
                guard offset == UInt64(content.position) else { throw ShareFailure(.invalid) }
                _ = try content.add(data, at: offset)
                try await write(Array(data.readableBytesView))
            case .end(0, _, let digest): problem = content.isWhole(digest) ? nil : .damaged
            case .abandoned(0): problem = .abandoned
            default: throw ShareFailure(.invalid)
            }
        }
    }
}
