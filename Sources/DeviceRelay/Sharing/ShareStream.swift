// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import Synchronization

/// The content of a file that comes while it is sent. It can be read once, so a transfer that has begun to read it is not repeated.
package final class ShareStream: Hashable, Sendable {
    private let content: @Sendable (_ take: (ByteBuffer) async throws -> Void) async throws -> Void
    private let begun = Atomic(false)

    /// - Parameter content: Gives all bytes in their order to the closure that it gets, and waits for it each time. It throws if there are no
    ///   more, although more were announced.
    package init(_ content: @escaping @Sendable (_ take: (ByteBuffer) async throws -> Void) async throws -> Void) {
        self.content = content
    }

    var hasBegun: Bool { begun.load(ordering: .acquiring) }

    func read(_ take: (ByteBuffer) async throws -> Void) async throws {
        guard !begun.exchange(true, ordering: .acquiringAndReleasing) else { throw ShareSource.Changed() }
        try await content(take)
    }

    package static func == (first: ShareStream, second: ShareStream) -> Bool { first === second }
    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
