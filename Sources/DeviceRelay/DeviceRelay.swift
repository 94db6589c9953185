// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Devices, messages and outcomes are values of `RelayProtocol`, so users of the SDK need that module too.
@_exported public import RelayProtocol
