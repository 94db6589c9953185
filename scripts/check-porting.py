#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors

"""Checks that every replacement in docs/porting.md is a public declaration, and that no name of the original is missing there. The arguments are the
directories of symbol graphs; without one, only the names of the original are checked."""

import glob
import json
import re
import sys

# The names of the original: its documented classes and enums, and those of its guides and earlier versions.
ORIGINAL = """
MCDAccessTokenRequestStatus MCDAppServiceClientConnectionManager MCDAppServiceClosedEventArgs
MCDAppServiceClosedStatus MCDAppServiceConnection MCDAppServiceConnectionOpenedInfo MCDAppServiceConnectionStatus
MCDAppServiceConnectionStatusSuccess MCDAppServiceDescription MCDAppServiceInfo MCDAppServiceProvider
MCDAppServiceRequest MCDAppServiceRequestReceivedEventArgs MCDAppServiceResponse MCDAppServiceResponseStatus
MCDAppServiceResponseStatusSuccess MCDApplicationRegistration MCDApplicationRegistrationBuilder
MCDCloudRegistrationStatus MCDConnectedDevicesAccessTokenInvalidatedEventArgs MCDConnectedDevicesAccessTokenRequest
MCDConnectedDevicesAccessTokenRequestedEventArgs MCDConnectedDevicesAccount MCDConnectedDevicesAccountAddedStatus
MCDConnectedDevicesAccountAddedStatusSuccess MCDConnectedDevicesAccountManager MCDConnectedDevicesAccountType
MCDConnectedDevicesAddAccountResult MCDConnectedDevicesNotification MCDConnectedDevicesNotificationRegistration
MCDConnectedDevicesNotificationRegistrationManager MCDConnectedDevicesNotificationRegistrationResult
MCDConnectedDevicesNotificationRegistrationState MCDConnectedDevicesNotificationRegistrationStateChangedEventArgs
MCDConnectedDevicesNotificationRegistrationStatus MCDConnectedDevicesNotificationRegistrationStatusSuccess
MCDConnectedDevicesNotificationType MCDConnectedDevicesPlatform MCDConnectedDevicesPlatformSettings
MCDConnectedDevicesProcessNotificationOperation MCDConnectedDevicesRemoveAccountResult MCDEvent
MCDEventRegistrationStatus MCDEventSubscription MCDHostingRemoteSystemApplicationRegistration MCDLaunchUriProvider
MCDNotificationProvider MCDNotificationRegistration MCDNotificationType MCDNotificationTypeAPN
MCDNotificationTypePolling MCDOAuthCodeProviderDelegate MCDPlatform MCDRegistrationUpdatedEvent
MCDRemoteLaunchUriStatus MCDRemoteLaunchUriStatusSuccess MCDRemoteLauncher MCDRemoteLauncherOptions MCDRemoteSystem
MCDRemoteSystemAccountFilter MCDRemoteSystemAddedEventArgs MCDRemoteSystemApp MCDRemoteSystemAppRegistration
MCDRemoteSystemAppRegistrationPublishResult MCDRemoteSystemAppRegistrationPublishStatus
MCDRemoteSystemAppRegistrationPublishStatusSuccess MCDRemoteSystemApplication MCDRemoteSystemAuthorizationKind
MCDRemoteSystemAuthorizationKindFilter MCDRemoteSystemConnectionInfo MCDRemoteSystemConnectionRequest
MCDRemoteSystemDiscoveryManager MCDRemoteSystemDiscoveryType MCDRemoteSystemDiscoveryTypeFilter
MCDRemoteSystemEnumerationCompletedEventArgs MCDRemoteSystemFilter MCDRemoteSystemKind MCDRemoteSystemKindFilter
MCDRemoteSystemKinds MCDRemoteSystemLocalVisibilityKind MCDRemoteSystemLocalVisibilityKindFilter
MCDRemoteSystemPlatform MCDRemoteSystemPlatformFilter MCDRemoteSystemRemovedEventArgs MCDRemoteSystemStatus
MCDRemoteSystemStatusType MCDRemoteSystemStatusTypeFilter MCDRemoteSystemUpdatedEventArgs MCDRemoteSystemWatcher
MCDRemoteSystemWatcherError MCDRemoteSystemWatcherErrorOccurredEventArgs MCDStatelessAppServiceResponse
MCDStatelessAppServiceResponseStatus MCDStatelessAppServiceResponseStatusSuccess MCDUserAccountProvider
MCDUserActivity MCDUserActivityChannel MCDUserActivitySession MCDUserActivitySessionHistoryItem MCDUserActivityState
MCDUserDataFeed MCDUserDataFeedPlatforms MCDUserDataFeedSyncScope MCDUserDataFeedSyncStatus MCDUserNotification
MCDUserNotificationChannel MCDUserNotificationReader MCDUserNotificationReaderOptions MCDUserNotificationUpdateResult
SupportsRemoteSystems addAppServiceProvider addRequestReceivedListener addServiceClosedListener descriptionWithName
getApplications getSupportedUriSchemes onConnectionOpened registrationUpdated setLaunchUriProvider
""".split()

with open("docs/porting.md", encoding="utf-8") as document:
    words = set(re.findall(r"\w+", document.read()))
missing = [name for name in ORIGINAL if name not in words]
for name in missing:
    print(f"docs/porting.md: {name} of the original is missing", file=sys.stderr)
if not sys.argv[1:]:
    sys.exit(1 if missing else 0)

declared = set()
for directory in sys.argv[1:]:
    for path in glob.glob(f"{directory}/*.symbols.json"):
        with open(path, encoding="utf-8") as graph:
            declared.update(".".join(symbol["pathComponents"]) for symbol in json.load(graph)["symbols"])
# The document may name a function without its arguments.
declared |= {name.split("(")[0] for name in declared}

names = 0
status = 1 if missing else 0
with open("docs/porting.md", encoding="utf-8") as document:
    for number, line in enumerate(document, 1):
        # The first column of a table has the original's names.
        text = line.split("|", 2)[2] if line.startswith("| ") else line
        for name in re.findall(r"`([A-Z]\w*(?:\.\w+)*(?:\([\w:]*\))?)`", text):
            if name.startswith(("MCD", "NS", "ASWeb")) or name == "DeviceRelay":  # the original's and Apple's
                continue
            names += 1
            if name not in declared:
                print(f"docs/porting.md:{number}: there is no {name}", file=sys.stderr)
                status = 1
if names < 100:
    print(f"docs/porting.md: only {names} names were found", file=sys.stderr)
    status = 1
sys.exit(status)
