// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A message that the limits allow does not fit into a control frame.
package struct ControlFrameTooSmall: Error, Hashable, Sendable, CustomStringConvertible {
    /// The limit of the message's content.
    package let limit: Limit
    /// The limit's value.
    package let value: Int
    /// The size of the largest frame with this content, in bytes.
    package let needed: Int
    /// The size of a control frame, in bytes.
    package let allowed: Int

    package var description: String {
        let others = limit == .commandBytes || limit == .appRegistrationsBytes ? " or endpointsPerAccount" : ""
        let remedy = needed > Limits.largestControlFrame ? "" : "raise controlFrameBytes, or "
        return """
            \(limit.rawValue) \(value) needs control frames of \(needed) bytes, and they have at most \(allowed); \
            \(remedy)lower \(limit.rawValue)\(others)
            """
    }
}

extension Limits {
    /// The largest control frame that an endpoint accepts, in bytes. A relay cannot raise it.
    package static let largestControlFrame = 4 << 20

    /// Throws if a message that the limits allow does not fit into a control frame. The relay could not send such a message.
    package func checkFrameSizes() throws(ControlFrameTooSmall) {
        let allowed = min(self[.controlFrameBytes], Self.largestControlFrame)
        // Padding, quotation marks and the comma are part of each voucher.
        let vouchers = self[.endpointsPerAccount] * (Blob<BlobKinds.Voucher>.maximumTextLength(self) + 3)
        let mostVouchers = Introduction.maximumVoucherBytes * 3 / 2
        let introduction = Blob<BlobKinds.EndpointRecord>.maximumTextLength(self) + min(vouchers, mostVouchers)
        let contents: [(Limit, Int)] = [
            (.commandBytes, Blob<BlobKinds.Command>.maximumTextLength(self) + introduction),
            (.replyBytes, Blob<BlobKinds.Reply>.maximumTextLength(self) + Blob<BlobKinds.Receipt>.maximumTextLength(self)),
            (.appRegistrationBytes, Blob<BlobKinds.AppRegistration>.maximumTextLength(self)),
            // Each registration has padding and punctuation of its own.
            (.appRegistrationsBytes, self[.appRegistrationsBytes] * 3 / 2 + introduction),
        ]
        for (limit, content) in contents {
            // 4 KiB is for the other members.
            let needed = content + (4 << 10)
            guard needed <= allowed else { throw ControlFrameTooSmall(limit: limit, value: self[limit], needed: needed, allowed: allowed) }
        }
    }
}
